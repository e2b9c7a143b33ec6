// `arrays.hpp` in C: sizes are arguments, which are constants at every call.

INLINE V total(int N, const V *a) {
  V s[4] = {0, 0, 0, 0};
  for (int i = 0; i < N; i++) s[i % 4] += a[i];
  return (s[0] + s[1]) + (s[2] + s[3]);
}

INLINE V average(int N, const V *a) { return total(N, a) / T(N); }

INLINE V largest(int N, const V *a) {
  V s = a[0];
  for (int i = 1; i < N; i++) s = larger(s, a[i]);
  return s;
}

INLINE V smallest(int N, const V *a) {
  V s = a[0];
  for (int i = 1; i < N; i++) s = smaller(s, a[i]);
  return s;
}

INLINE V product(int N, const V *a) {
  V s = a[0];
  for (int i = 1; i < N; i++) s *= a[i];
  return s;
}

INLINE void running_total(int N, V *out, const V *a) {
  V s = 0;
  for (int i = 0; i < N; i++) out[i] = s += a[i];
}

INLINE void row(int K, int J, int AK, int BK, int BJ, V *out, const V *a, const V *b) {
  V s[32];  // so that sums stay in registers
  UNROLLED for (int j = 0; j < J; j++) s[j] = 0;
  for (int k = 0; k < K; k++) {
    UNROLLED for (int j = 0; j < J; j++) s[j] += a[k * AK] * b[k * BK + j * BJ];
  }
  UNROLLED for (int j = 0; j < J; j++) out[j] = s[j];
}

INLINE void matmul(int I, int K, int J, int AI, int AK, int BK, int BJ, V *out, const V *a, const V *b) {
  const int full = J / 32 * 32;
  for (int i = 0; i < I; i++) {
    for (int j = 0; j < full; j += 32) row(K, 32, AK, BK, BJ, out + i * J + j, a + i * AI, b + j * BJ);
    if (full < J) row(K, J - full, AK, BK, BJ, out + i * J + full, a + i * AI, b + full * BJ);
  }
}

INLINE void eliminate(int N, int R, V *m, V *out, const V *a, const V *b) {
  const int S = N + R;
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < N; j++) m[i * S + j] = a[i * N + j];
    for (int j = 0; j < R; j++) m[i * S + N + j] = b[i * R + j];
  }
  for (int k = 0; k < N; k++)
    for (int i = k + 1; i < N; i++) {
      const V swap = less(magnitude(m[k * S + k]), magnitude(m[i * S + k]));
      for (int j = k; j < S; j++) {
        const V upper = choose(swap, m[i * S + j], m[k * S + j]);
        m[i * S + j] = choose(swap, m[k * S + j], m[i * S + j]);
        m[k * S + j] = upper;
      }
      const V factor = m[i * S + k] / m[k * S + k];
      for (int j = k; j < S; j++) m[i * S + j] -= factor * m[k * S + j];
    }
  for (int i = N - 1; i >= 0; i--)
    for (int j = 0; j < R; j++) {
      for (int k = i + 1; k < N; k++) m[i * S + N + j] -= m[i * S + k] * m[k * S + N + j];
      m[i * S + N + j] /= m[i * S + i];
      out[i * R + j] = m[i * S + N + j];
    }
}

#define solve(N, R, out, a, b) eliminate(N, R, (V[(N) * ((N) + (R))]){0}, out, a, b)
