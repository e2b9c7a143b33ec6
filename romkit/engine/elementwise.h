// Functions of one number of each member, in C and C++: V is its type, vec makes it, EACH goes through it.
// Every name is defined once, so that an exported model holds those that it calls and no others.

#if defined(__GNUC__) && !defined(__clang__)
#define UNROLLED _Pragma("GCC unroll 32")
#else
#define UNROLLED
#endif
#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

static inline V root(V a) { EACH(sqrt(OF(a))); }
static inline V magnitude(V a) { EACH(fabs(OF(a))); }
static inline V exponential(V a) { EACH(exp(OF(a))); }
static inline V exponential_minus_one(V a) { EACH(expm1(OF(a))); }
static inline V logarithm(V a) { EACH(log(OF(a))); }
static inline V logarithm_one_plus(V a) { EACH(log1p(OF(a))); }
static inline V sine(V a) { EACH(sin(OF(a))); }
static inline V cosine(V a) { EACH(cos(OF(a))); }
static inline V tangent(V a) { EACH(tan(OF(a))); }
static inline V hyperbolic_sine(V a) { EACH(sinh(OF(a))); }
static inline V hyperbolic_cosine(V a) { EACH(cosh(OF(a))); }
static inline V hyperbolic_tangent(V a) { EACH(tanh(OF(a))); }
static inline V arctangent(V a) { EACH(atan(OF(a))); }
static inline V down(V a) { EACH(floor(OF(a))); }
static inline V up(V a) { EACH(ceil(OF(a))); }
static inline V towards_zero(V a) { EACH(trunc(OF(a))); }
static inline V nearest(V a) { EACH(nearbyint(OF(a))); }
static inline V arcsine(V a) { EACH(asin(OF(a))); }
static inline V arccosine(V a) { EACH(acos(OF(a))); }
static inline V error_function(V a) { EACH(erf(OF(a))); }
static inline V exponential_two(V a) { EACH(exp2(OF(a))); }
static inline V logarithm_two(V a) { EACH(log2(OF(a))); }
static inline V logarithm_ten(V a) { EACH(log10(OF(a))); }
static inline V rest(V a, V b) { EACH(fmod(OF(a), OF(b))); }
static inline V angle(V a, V b) { EACH(atan2(OF(a), OF(b))); }
static inline V power(V a, V b) { EACH(pow(OF(a), OF(b))); }

// Truth is 1, falsehood 0. A comparison with NaN is false; maximum and minimum hand NaN on, as in torch.
static inline V less(V a, V b) { return (a < b) ? vec(T(1)) : vec(T(0)); }
static inline V less_equal(V a, V b) { return (a <= b) ? vec(T(1)) : vec(T(0)); }
static inline V equal(V a, V b) { return (a == b) ? vec(T(1)) : vec(T(0)); }
static inline V unequal(V a, V b) { return (a != b) ? vec(T(1)) : vec(T(0)); }
static inline V choose(V c, V a, V b) { return (c != vec(T(0))) ? a : b; }
static inline V both(V a, V b) { return unequal(a, vec(T(0))) * unequal(b, vec(T(0))); }
static inline V negation(V a) { return equal(a, vec(T(0))); }
static inline V either(V a, V b) { return unequal(unequal(a, vec(T(0))) + unequal(b, vec(T(0))), vec(T(0))); }
static inline V larger(V a, V b) { return ((a > b) | (a != a)) ? a : b; }
static inline V smaller(V a, V b) { return ((a < b) | (a != a)) ? a : b; }
static inline V sign(V a) { return less(vec(T(0)), a) - less(a, vec(T(0))); }
