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

static inline V each_sqrt(V a) { EACH(sqrt(OF(a))); }
static inline V each_abs(V a) { EACH(fabs(OF(a))); }
static inline V each_exp(V a) { EACH(exp(OF(a))); }
static inline V each_expm1(V a) { EACH(expm1(OF(a))); }
static inline V each_log(V a) { EACH(log(OF(a))); }
static inline V each_log1p(V a) { EACH(log1p(OF(a))); }
static inline V each_sin(V a) { EACH(sin(OF(a))); }
static inline V each_cos(V a) { EACH(cos(OF(a))); }
static inline V each_tan(V a) { EACH(tan(OF(a))); }
static inline V each_sinh(V a) { EACH(sinh(OF(a))); }
static inline V each_cosh(V a) { EACH(cosh(OF(a))); }
static inline V each_tanh(V a) { EACH(tanh(OF(a))); }
static inline V each_atan(V a) { EACH(atan(OF(a))); }
static inline V each_floor(V a) { EACH(floor(OF(a))); }
static inline V each_ceil(V a) { EACH(ceil(OF(a))); }
static inline V each_trunc(V a) { EACH(trunc(OF(a))); }
static inline V each_round(V a) { EACH(nearbyint(OF(a))); }
static inline V each_asin(V a) { EACH(asin(OF(a))); }
static inline V each_acos(V a) { EACH(acos(OF(a))); }
static inline V each_erf(V a) { EACH(erf(OF(a))); }
static inline V each_exp2(V a) { EACH(exp2(OF(a))); }
static inline V each_log2(V a) { EACH(log2(OF(a))); }
static inline V each_log10(V a) { EACH(log10(OF(a))); }
static inline V each_fmod(V a, V b) { EACH(fmod(OF(a), OF(b))); }
static inline V each_atan2(V a, V b) { EACH(atan2(OF(a), OF(b))); }
static inline V each_pow(V a, V b) { EACH(pow(OF(a), OF(b))); }

// Truth is 1, falsehood 0. A comparison with NaN is false; maximum and minimum hand NaN on, as in torch.
static inline V each_lt(V a, V b) { return (a < b) ? vec(T(1)) : vec(T(0)); }
static inline V each_le(V a, V b) { return (a <= b) ? vec(T(1)) : vec(T(0)); }
static inline V each_eq(V a, V b) { return (a == b) ? vec(T(1)) : vec(T(0)); }
static inline V each_ne(V a, V b) { return (a != b) ? vec(T(1)) : vec(T(0)); }
static inline V each_where(V c, V a, V b) { return (c != vec(T(0))) ? a : b; }
static inline V each_logical_and(V a, V b) { return each_ne(a, vec(T(0))) * each_ne(b, vec(T(0))); }
static inline V each_logical_not(V a) { return each_eq(a, vec(T(0))); }
static inline V each_logical_or(V a, V b) { return each_ne(each_ne(a, vec(T(0))) + each_ne(b, vec(T(0))), vec(T(0))); }
static inline V each_maximum(V a, V b) { return ((a > b) | (a != a)) ? a : b; }
static inline V each_minimum(V a, V b) { return ((a < b) | (a != a)) ? a : b; }
static inline V each_sign(V a) { return each_lt(vec(T(0)), a) - each_lt(a, vec(T(0))); }
