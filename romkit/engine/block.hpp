// Members go through the field block by block. D components, M_SIZE constants of each member.

// y (members, D) of a block, lane by lane; the last block is filled up with its last member.
static void load(V *y, const T *from, int64_t first, int64_t members) {
  for (int i = 0; i < D; i++)
    for (int l = 0; l < W; l++) {
      const int64_t member = first + l < members ? first + l : members - 1;
      reinterpret_cast<T *>(y + i)[l] = from[member * D + i];
    }
}

static void store(T *to, const V *y, int64_t first, int64_t members) {
  for (int l = 0; l < W && first + l < members; l++)
    for (int i = 0; i < D; i++) to[(first + l) * D + i] = reinterpret_cast<const T *>(y + i)[l];
}

// out (members, D) = field(t, y), y (members, D).
extern "C" void evaluate(T t, const T *y, T *out, const T *C, const V *M, int64_t members) {
  for (int64_t first = 0; first < members; first += W) {
    V block[D], velocity[D];
    load(block, y, first, members);
    field(vec(t), block, velocity, C, M + first / W * M_SIZE);
    store(out, velocity, first, members);
  }
}
