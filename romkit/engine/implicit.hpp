// A Rosenbrock method, with the Jacobian by differences: D is small.

// Elimination of m (D, D) in place. Rows are swapped where the pivot is smaller, member by member; `swaps` and
// `factors` (D, D) keep what `substitute` does again to a right-hand side.
static void eliminate(V *m, V *swaps, V *factors) {
  for (int k = 0; k < D; k++)
    for (int i = k + 1; i < D; i++) {
      const V swap = each_lt(each_abs(m[k * D + k]), each_abs(m[i * D + k]));
      for (int j = k; j < D; j++) {
        const V upper = each_where(swap, m[i * D + j], m[k * D + j]);
        m[i * D + j] = each_where(swap, m[k * D + j], m[i * D + j]);
        m[k * D + j] = upper;
      }
      const V factor = m[i * D + k] / m[k * D + k];
      for (int j = k; j < D; j++) m[i * D + j] -= factor * m[k * D + j];
      swaps[k * D + i] = swap;
      factors[k * D + i] = factor;
    }
}

static void substitute(const V *m, const V *swaps, const V *factors, V *b) {
  for (int k = 0; k < D; k++)
    for (int i = k + 1; i < D; i++) {
      const V swap = swaps[k * D + i], upper = each_where(swap, b[i], b[k]);
      b[i] = each_where(swap, b[k], b[i]) - factors[k * D + i] * upper;
      b[k] = upper;
    }
  for (int i = D - 1; i >= 0; i--) {
    for (int j = i + 1; j < D; j++) b[i] -= m[i * D + j] * b[j];
    b[i] /= m[i * D + i];
  }
}

struct Method {
  V u[STAGES][D];

  void begin(V, const V *, V, const T *, const V *) {}

  // A step of length h from t, or from `start` where the field has just jumped.
  void attempt(V start, V t, V h, V latest, V scale, const V *y, V *next, V *error, const T *C, const V *M) {
    V rate[D], drift[D], matrix[D * D], swaps[D * D], factors[D * D];
    field(start, y, rate, C, M);
    linearise(start, h, scale, y, rate, drift, matrix, C, M);
    eliminate(matrix, swaps, factors);
    for (int s = 0; s < STAGES; s++) {
      V sum[D];
      for (int i = 0; i < D; i++) {
        next[i] = y[i];
        for (int j = 0; j < s; j++) next[i] += WEIGHTS[s][j] * u[j][i];
      }
      if (s > 0) field(each_minimum(t + h * NODES[s], latest), next, rate, C, M);
      for (int i = 0; i < D; i++) {
        sum[i] = rate[i] + h * DRIFTS[s] * drift[i];
        for (int j = 0; j < s; j++) sum[i] += COUPLINGS[s][j] * u[j][i] / h;
      }
      substitute(matrix, swaps, factors, sum);
      for (int i = 0; i < D; i++) u[s][i] = sum[i];
    }
    for (int i = 0; i < D; i++) {
      error[i] = u[STAGES - 1][i];
      next[i] += error[i];
    }
  }

  // drift = df/dt, and matrix = I / (gamma h) - df/dy.
  static void linearise(V t, V h, V scale, const V *y, const V *rate, V *drift, V *matrix, const T *C, const V *M) {
    V moved[D], other[D];
    const V later = h * T(LATER);
    field(t + later, y, other, C, M);
    for (int i = 0; i < D; i++) drift[i] = (other[i] - rate[i]) / later;
    for (int i = 0; i < D; i++) moved[i] = y[i];
    for (int j = 0; j < D; j++) {
      const V size = each_maximum(each_abs(y[j]), scale * T(FLOOR));
      moved[j] = y[j] + T(sqrt(EPSILON)) * each_where(each_lt(vec(T(0)), size), size, vec(T(1)));
      const V distance = moved[j] - y[j];
      field(t, moved, other, C, M);
      for (int i = 0; i < D; i++) matrix[i * D + j] = (rate[i] - other[i]) / distance;
      matrix[j * D + j] += T(1) / (h * T(GAMMA));
      moved[j] = y[j];
    }
  }

  V unstable(V, const V *) const { return vec(T(0)); }

  T between(int i, int l, T share, T, const V *y, const V *next) const {
    T second = 0, third = 0;
    for (int j = 0; j < STAGES - 1; j++) {
      second += DENSE[0][j] * of(u[j][i], l);
      third += DENSE[1][j] * of(u[j][i], l);
    }
    const T rest = 1 - share;
    return of(y[i], l) * rest + share * (of(next[i], l) + rest * (second + share * third));
  }

  void accept(V) {}
};
