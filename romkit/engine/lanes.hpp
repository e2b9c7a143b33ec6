// Numbers of single members of a block, for what each of them decides by itself.

#include <float.h>
#include <math.h>

static const T EPSILON = sizeof(T) == 8 ? T(DBL_EPSILON) : T(FLT_EPSILON);

static inline T of(const V &x, int lane) { return reinterpret_cast<const T *>(&x)[lane]; }
static inline void set(V &x, int lane, T value) { reinterpret_cast<T *>(&x)[lane] = value; }
static inline T smaller(T a, T b) { return b < a ? b : a; }
static inline T larger(T a, T b) { return a < b ? b : a; }
static inline bool finite_number(T x) { return fabs(double(x)) <= DBL_MAX; }

// The neighbour of a time, in the direction of another.
static inline T beside(T x, T direction) {
  return sizeof(T) == 8 ? T(nextafter(double(x), double(direction))) : T(nextafterf(float(x), float(direction)));
}
