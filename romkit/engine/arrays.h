// Sums, products and linear systems on arrays of numbers, in C and C++. Sizes are arguments, which are constants at
// every call. ANY is an array of one number per member, or in C++ also one of numbers that all members share.

ANY INLINE V total(int N, const A *a) {
  V s[8];  // more than one, so that sums do not wait for each other
  for (int j = 0; j < 8; j++) s[j] = vec(T(0));
  for (int i = 0; i < N; i++) s[i % 8] += a[i];
  return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

ANY INLINE V average(int N, const A *a) { return total(N, a) / T(N); }

ANY INLINE V largest(int N, const A *a) {
  V s = vec(a[0]);
  for (int i = 1; i < N; i++) s = each_maximum(s, vec(a[i]));
  return s;
}

ANY INLINE V smallest(int N, const A *a) {
  V s = vec(a[0]);
  for (int i = 1; i < N; i++) s = each_minimum(s, vec(a[i]));
  return s;
}

ANY INLINE V product(int N, const A *a) {
  V s = vec(a[0]);
  for (int i = 1; i < N; i++) s *= a[i];
  return s;
}

ANY INLINE void running_total(int N, V *out, const A *a) {
  V s = vec(T(0));
  for (int i = 0; i < N; i++) out[i] = s += a[i];
}

// A few columns of a row of the product at a time, so that their sums stay in registers.
ANY INLINE void row(int K, int J, int AK, int BK, int BJ, V *out, const A *a, const B *b) {
  V s[COLUMNS];
  UNROLLED for (int j = 0; j < J; j++) s[j] = vec(T(0));
  for (int k = 0; k < K; k++) {
    UNROLLED for (int j = 0; j < J; j++) s[j] += a[k * AK] * b[k * BK + j * BJ];
  }
  UNROLLED for (int j = 0; j < J; j++) out[j] = s[j];
}

#define FEW_COLUMNS 3

// The same for long rows of at most FEW_COLUMNS: each sum in four parts, so that additions do not wait for each other.
ANY INLINE void long_row(int K, int J, int AK, int BK, int BJ, V *out, const A *a, const B *b) {
  V s[4][FEW_COLUMNS];
  const int whole = K / 4 * 4;
  UNROLLED for (int part = 0; part < 4; part++) {
    UNROLLED for (int j = 0; j < J; j++) s[part][j] = vec(T(0));
  }
  for (int k = 0; k < whole; k += 4) {
    UNROLLED for (int part = 0; part < 4; part++) {
      UNROLLED for (int j = 0; j < J; j++) s[part][j] += a[(k + part) * AK] * b[(k + part) * BK + j * BJ];
    }
  }
  for (int k = whole; k < K; k++) {
    UNROLLED for (int j = 0; j < J; j++) s[0][j] += a[k * AK] * b[k * BK + j * BJ];
  }
  UNROLLED for (int j = 0; j < J; j++) out[j] = (s[0][j] + s[1][j]) + (s[2][j] + s[3][j]);
}

// out (I, J) = a (I, K) b (K, J), with the strides of a and b.
ANY INLINE void matmul(int I, int K, int J, int AI, int AK, int BK, int BJ, V *out, const A *a, const B *b) {
  const int full = J / COLUMNS * COLUMNS;
  for (int i = 0; i < I; i++) {
    if (J <= FEW_COLUMNS && K >= 16) {
      long_row(K, J, AK, BK, BJ, out + i * J, a + i * AI, b);
      continue;
    }
    for (int j = 0; j < full; j += COLUMNS) row(K, COLUMNS, AK, BK, BJ, out + i * J + j, a + i * AI, b + j * BJ);
    if (full < J) row(K, J - full, AK, BK, BJ, out + i * J + full, a + i * AI, b + full * BJ);
  }
}

// out (N, R) = a^-1 b by elimination in m (N, N + R). Rows are swapped where the pivot is smaller, member by member; a
// singular matrix gives numbers that are not finite.
ANY INLINE void solve(int N, int R, V *m, V *out, const A *a, const B *b) {
  const int S = N + R;
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < N; j++) m[i * S + j] = vec(a[i * N + j]);
    for (int j = 0; j < R; j++) m[i * S + N + j] = vec(b[i * R + j]);
  }
  for (int k = 0; k < N; k++)
    for (int i = k + 1; i < N; i++) {
      const V swap = each_lt(each_abs(m[k * S + k]), each_abs(m[i * S + k]));
      for (int j = k; j < S; j++) {
        const V upper = each_where(swap, m[i * S + j], m[k * S + j]);
        m[i * S + j] = each_where(swap, m[k * S + j], m[i * S + j]);
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
