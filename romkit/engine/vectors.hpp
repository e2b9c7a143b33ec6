// Arithmetic on blocks of W members. V is one number of each member of a block, T one number.
// Every member is computed by the same operations whatever its neighbours hold, so none can change another.

#ifdef __CUDACC_RTC__
typedef long long int64_t;  // there are no headers
#define NAN __builtin_nan("")
#define INFINITY __longlong_as_double(0x7ff0000000000000LL)
#define APART __noinline__  // one copy of the field for all stages, which compiles in a tenth of the time
#else
#define APART
#include <stdint.h>
#endif

#if W > 1
typedef T V __attribute__((vector_size(W * sizeof(T))));
static inline V vec(T x) { return x - V{}; }
static inline V vec(V x) { return x; }
#define EACH(function) \
  V r; \
  for (int l = 0; l < W; l++) r[l] = function; \
  return r
#define OF(x) x[l]
#else
typedef T V;
static inline V vec(T x) { return x; }
#define EACH(function) return function
#define OF(x) x
#endif

#define ANY template <class A, class B = A>
#define COLUMNS (W > 1 ? 6 : 32)
