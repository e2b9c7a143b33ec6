// Members go through the field block by block. D components, M_SIZE constants of each member.

#ifdef THREADS
// On a GPU a member has a thread, whose block it is alone. Its constants are copied once to the thread's own memory;
// those of the THREADS members of one block of the GPU lie side by side.
#define KERNEL extern "C" __global__ void
#define EACH_BLOCK(first, members) \
  for (int64_t first = blockIdx.x * int64_t(THREADS) + threadIdx.x; first < members; first = members)
#define CONSTANTS(own, first) \
  V own[M_SIZE]; \
  for (int i = 0; i < M_SIZE; i++) own[i] = M[(blockIdx.x * int64_t(M_SIZE) + i) * THREADS + threadIdx.x]
#else
#define KERNEL extern "C" void
#define EACH_BLOCK(first, members) for (int64_t first = 0; first < members; first += W)
#define CONSTANTS(own, first) const V *own = M + first / W * M_SIZE
#endif

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
KERNEL evaluate(T t, const T *y, T *out, const T *C, const V *M, int64_t members) {
  EACH_BLOCK(first, members) {
    CONSTANTS(own, first);
    V block[D], velocity[D];
    load(block, y, first, members);
    field(vec(t), block, velocity, C, own);
    store(out, velocity, first, members);
  }
}
