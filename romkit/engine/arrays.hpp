// Sums, products and linear systems on arrays of numbers, of sizes that are known when they are compiled.

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
