// Arithmetic on blocks of W members. V is one number of each member of a block, T one number.
// Every member is computed by the same operations whatever its neighbours hold, so none can change another.

#include <cmath>
#include <cstdint>

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

static inline V root(V a) { EACH(std::sqrt(OF(a))); }
static inline V magnitude(V a) { EACH(std::fabs(OF(a))); }
static inline V exponential(V a) { EACH(std::exp(OF(a))); }
static inline V exponential_minus_one(V a) { EACH(std::expm1(OF(a))); }
static inline V logarithm(V a) { EACH(std::log(OF(a))); }
static inline V logarithm_one_plus(V a) { EACH(std::log1p(OF(a))); }
static inline V sine(V a) { EACH(std::sin(OF(a))); }
static inline V cosine(V a) { EACH(std::cos(OF(a))); }
static inline V tangent(V a) { EACH(std::tan(OF(a))); }
static inline V hyperbolic_sine(V a) { EACH(std::sinh(OF(a))); }
static inline V hyperbolic_cosine(V a) { EACH(std::cosh(OF(a))); }
static inline V hyperbolic_tangent(V a) { EACH(std::tanh(OF(a))); }
static inline V arctangent(V a) { EACH(std::atan(OF(a))); }
static inline V down(V a) { EACH(std::floor(OF(a))); }
static inline V up(V a) { EACH(std::ceil(OF(a))); }
static inline V towards_zero(V a) { EACH(std::trunc(OF(a))); }
static inline V nearest(V a) { EACH(std::nearbyint(OF(a))); }
static inline V arcsine(V a) { EACH(std::asin(OF(a))); }
static inline V arccosine(V a) { EACH(std::acos(OF(a))); }
static inline V error_function(V a) { EACH(std::erf(OF(a))); }
static inline V exponential_two(V a) { EACH(std::exp2(OF(a))); }
static inline V logarithm_two(V a) { EACH(std::log2(OF(a))); }
static inline V logarithm_ten(V a) { EACH(std::log10(OF(a))); }
static inline V rest(V a, V b) { EACH(std::fmod(OF(a), OF(b))); }
static inline V angle(V a, V b) { EACH(std::atan2(OF(a), OF(b))); }
static inline V power(V a, V b) { EACH(std::pow(OF(a), OF(b))); }

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

template <int N, class A> static inline V total(const A *a) {
  V s = vec(T(0));
#if W == 1
#pragma omp simd reduction(+ : s)
#endif
  for (int i = 0; i < N; i++) s += a[i];
  return s;
}

template <int N, class A> static inline V average(const A *a) { return total<N>(a) / T(N); }

#define FOLD(name, operation) \
  template <int N, class A> static inline V name(const A *a) { \
    V s = vec(a[0]); \
    for (int i = 1; i < N; i++) s = operation; \
    return s; \
  }
FOLD(largest, larger(s, vec(a[i])))
FOLD(smallest, smaller(s, vec(a[i])))
FOLD(product, s *a[i])

template <int N, class A> static inline void running_total(V *out, const A *a) {
  V s = vec(T(0));
  for (int i = 0; i < N; i++) out[i] = s += a[i];
}

// A few columns of a row of the product at a time, so that their sums stay in registers.
template <int K, int J, int AK, int BK, int BJ, class A, class B>
static inline void row(V *out, const A *a, const B *b) {
  V s[J];
  for (int j = 0; j < J; j++) s[j] = vec(T(0));
  for (int k = 0; k < K; k++)
    for (int j = 0; j < J; j++) s[j] += a[k * AK] * b[k * BK + j * BJ];
  for (int j = 0; j < J; j++) out[j] = s[j];
}

// out (I, J) = a (I, K) b (K, J), with the strides of a and b.
template <int I, int K, int J, int AI, int AK, int BK, int BJ, class A, class B>
static inline void matmul(V *out, const A *a, const B *b) {
  constexpr int columns = W > 1 ? 6 : 32, full = J / columns * columns;
  for (int i = 0; i < I; i++) {
    for (int j = 0; j < full; j += columns)
      row<K, columns, AK, BK, BJ>(out + i * J + j, a + i * AI, b + j * BJ);
    if constexpr (full < J) row<K, J - full, AK, BK, BJ>(out + i * J + full, a + i * AI, b + full * BJ);
  }
}

// out (N, R) = a⁻¹ b by elimination. Rows are swapped where the pivot is smaller, member by member; a singular matrix
// gives numbers that are not finite.
template <int N, int R, class A, class B> static inline void solve(V *out, const A *a, const B *b) {
  V m[N][N + R];
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < N; j++) m[i][j] = vec(a[i * N + j]);
    for (int j = 0; j < R; j++) m[i][N + j] = vec(b[i * R + j]);
  }
  for (int k = 0; k < N; k++)
    for (int i = k + 1; i < N; i++) {
      const V swap = less(magnitude(m[k][k]), magnitude(m[i][k]));
      for (int j = k; j < N + R; j++) {
        const V upper = choose(swap, m[i][j], m[k][j]);
        m[i][j] = choose(swap, m[k][j], m[i][j]);
        m[k][j] = upper;
      }
      const V factor = m[i][k] / m[k][k];
      for (int j = k; j < N + R; j++) m[i][j] -= factor * m[k][j];
    }
  for (int i = N - 1; i >= 0; i--)
    for (int j = 0; j < R; j++) {
      for (int k = i + 1; k < N; k++) m[i][N + j] -= m[i][k] * m[k][N + j];
      m[i][N + j] /= m[i][i];
      out[i * R + j] = m[i][N + j];
    }
}
