// A thread for each member of the batch. One launch takes it through a whole run, and all that it computes stays in
// memory of the thread. D components, M_SIZE constants of each member, THREADS of a block.

// The constants of the thread's member into `own`; M (blocks, M_SIZE, THREADS), so that a block reads them side by side.
static void load(V *own, const V *M) {
  for (int i = 0; i < M_SIZE; i++) own[i] = M[(blockIdx.x * (long long)M_SIZE + i) * THREADS + threadIdx.x];
}

// out (members, D) = field(t, y), y (members, D).
extern "C" __global__ void evaluate(T t, const T *y, T *out, const T *C, const T *M, long long members) {
  const long long member = blockIdx.x * (long long)THREADS + threadIdx.x;
  if (member >= members) return;
  V own[M_SIZE];
  load(own, M);
  field(t, y + member * D, out + member * D, C, own);
}

// states (intervals, members, D) from y (members, D), as `integrate` of integrate.hpp.
extern "C" __global__ void integrate(const T *t, const T *h, const long long *steps, long long intervals, T bound, T *y,
                                     T *states, const T *C, const T *M, long long members) {
  const long long member = blockIdx.x * (long long)THREADS + threadIdx.x;
  if (member >= members) return;
  V own[M_SIZE], state[D];
  load(own, M);
  for (int i = 0; i < D; i++) state[i] = y[member * D + i];
  for (long long k = 0; k < intervals; k++) {
    for (long long i = 0; i < steps[k]; i++) step(t[k] + i * h[k], h[k], state, C, own);
    V inside = 1;
    for (int i = 0; i < D; i++) states[(k * members + member) * D + i] = state[i];
    for (int i = 0; i < D; i++) inside *= each_le(each_abs(state[i]), bound);
    for (int i = 0; i < D; i++) state[i] = each_where(inside, state[i], 0);
  }
  for (int i = 0; i < D; i++) y[member * D + i] = state[i];
}
