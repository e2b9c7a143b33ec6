// Numbers of single members of a block, for what each of them decides by itself.

static const T EPSILON = sizeof(T) == 8 ? T(2.220446049250313e-16) : T(1.1920928955078125e-7);

static inline T of(const V &x, int lane) { return reinterpret_cast<const T *>(&x)[lane]; }
static inline void set(V &x, int lane, T value) { reinterpret_cast<T *>(&x)[lane] = value; }
static inline T smaller(T a, T b) { return b < a ? b : a; }
static inline T larger(T a, T b) { return a < b ? b : a; }
static inline bool finite_number(T x) { return fabs(double(x)) <= 1.7976931348623157e308; }

// The neighbour of a time, in the direction of another.
static inline T beside(T x, T direction) { return nextafter(x, direction); }
