// An embedded explicit Runge-Kutta pair. Its last stage is at the solution, and begins the next step.

struct Method {
  V k[STAGES][D], sixth[D];

  void begin(V t, const V *y, V renewed, const T *C, const V *M) {
    V rate[D];
    field(t, y, rate, C, M);
    for (int i = 0; i < D; i++) k[0][i] = each_where(renewed, rate[i], k[0][i]);
  }

  // A step of length h, whose stages are no later than `latest`.
  void attempt(V, V t, V h, V latest, V, const V *y, V *next, V *error, const T *C, const V *M) {
    for (int s = 1; s < STAGES; s++) {
      for (int i = 0; i < D; i++) {
        V slope = vec(T(0));
        for (int j = 0; j < s; j++) slope += WEIGHTS[s][j] * k[j][i];
        next[i] = y[i] + h * slope;
      }
      if (s == STAGES - 2)
        for (int i = 0; i < D; i++) sixth[i] = next[i];
      field(each_minimum(t + h * NODES[s], latest), next, k[s], C, M);
    }
    for (int i = 0; i < D; i++) {
      V slope = vec(T(0));
      for (int j = 0; j < STAGES; j++) slope += ERROR[j] * k[j][i];
      error[i] = h * slope;
    }
  }

  // Whether steps are as long as stability allows: the last two stages are at the same time, so their rates differ by
  // the Jacobian times the difference of their states.
  V unstable(V h, const V *next) const {
    V rates = vec(T(0)), states = vec(T(0));
    for (int i = 0; i < D; i++) {
      const V rate = k[STAGES - 1][i] - k[STAGES - 2][i], state = next[i] - sixth[i];
      rates += rate * rate;
      states += state * state;
    }
    return each_lt(states * T(STABLE * STABLE), h * h * rates);
  }

  T between(int i, int l, T share, T h, const V *y, const V *) const {
    T slope = 0;
    for (int j = 0; j < STAGES; j++)
      slope += share * (DENSE[j][0] + share * (DENSE[j][1] + share * (DENSE[j][2] + share * DENSE[j][3]))) *
               of(k[j][i], l);
    return of(y[i], l) + h * slope;
  }

  void accept(V accepted) {
    for (int i = 0; i < D; i++) k[0][i] = each_where(accepted, k[STAGES - 1][i], k[0][i]);
  }
};
