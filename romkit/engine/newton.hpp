// Newton's method for all members, block by block: the field is its step.

static bool any(V truth) {
  for (int l = 0; l < W; l++)
    if (reinterpret_cast<const T *>(&truth)[l] != T(0)) return true;
  return false;
}

// y (members, D) += field(t, y) until the components from `start` on move by at most tolerance (1 + their norm). A
// member moves no more once it is there; one that is lost has NaN, which is never far from anything.
KERNEL settle(T t, int64_t start, int64_t iterations, T tolerance, T *y, const T *C, const V *M, int64_t members) {
  EACH_BLOCK(first, members) {
    CONSTANTS(own, first);
    V block[D], move[D], moving = vec(T(1));
    load(block, y, first, members);
    for (int64_t k = 0; k < iterations && any(moving); k++) {
      field(vec(t), block, move, C, own);
      V length = vec(T(0)), size = vec(T(0));
      for (int i = 0; i < D; i++) block[i] = each_where(moving, block[i] + move[i], block[i]);
      for (int i = start; i < D; i++) length += move[i] * move[i], size += block[i] * block[i];
      moving = each_logical_and(moving, each_lt(tolerance * (T(1) + each_sqrt(size)), each_sqrt(length)));
    }
    store(y, block, first, members);
  }
}
