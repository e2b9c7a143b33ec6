// A step of the classical Runge-Kutta method, in C and C++.

static void step(T t, T h, V *y, const T *C, const V *M) {
  V k1[D], k2[D], k3[D], k4[D], at[D];
  field(t, y, k1, C, M);
  for (int i = 0; i < D; i++) at[i] = y[i] + (h / 2) * k1[i];
  field(t + h / 2, at, k2, C, M);
  for (int i = 0; i < D; i++) at[i] = y[i] + (h / 2) * k2[i];
  field(t + h / 2, at, k3, C, M);
  for (int i = 0; i < D; i++) at[i] = y[i] + h * k3[i];
  field(t + h, at, k4, C, M);
  for (int i = 0; i < D; i++) y[i] += (h / 6) * (k1[i] + T(2) * (k2[i] + k3[i]) + k4[i]);
}
