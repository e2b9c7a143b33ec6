// Numbers of single members of a block, for what each of them decides by itself.

#include <algorithm>
#include <cmath>
#include <limits>

static const T EPSILON = std::numeric_limits<T>::epsilon();

static inline T of(const V &x, int lane) { return reinterpret_cast<const T *>(&x)[lane]; }
static inline void set(V &x, int lane, T value) { reinterpret_cast<T *>(&x)[lane] = value; }
