// Steps of all members, block by block.

// Members that left the bound, or the finite range, start again from zero, so that their arithmetic stays cheap.
static void reset_outside(V *y, T bound) {
  V inside = vec(T(1));
  for (int i = 0; i < D; i++) inside *= each_le(each_abs(y[i]), vec(bound));
  for (int i = 0; i < D; i++) y[i] = each_where(inside, y[i], vec(T(0)));
}

// states (intervals, members, D) from y (members, D), which is left at the last state.
// Interval k starts at t[k] and takes steps[k] steps of length h[k].
KERNEL integrate(const T *t, const T *h, const int64_t *steps, int64_t intervals, T bound, T *y, T *states, const T *C,
                 const V *M, int64_t members) {
  EACH_BLOCK(first, members) {
    CONSTANTS(own, first);
    V block[D];
    load(block, y, first, members);
    for (int64_t k = 0; k < intervals; k++) {
      for (int64_t i = 0; i < steps[k]; i++) step(t[k] + i * h[k], h[k], block, C, own);
      store(states + k * members * D, block, first, members);
      reset_outside(block, bound);
    }
    store(y, block, first, members);
  }
}
