// Rollouts of polynomial laws by steps of RK4, and their derivatives by coefficients and starts.
//
// Arrays are those of sensitivities.py, in rows: n runs of W windows, M steps, d variables of which the last m have the
// law's rates, K monomials, q terms of a context that moves (1 where none does). D is d where it is known to the compiler,
// which then unrolls loops over variables, and 0 where it is not, or the law is of second order.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace {

struct Law {
  long d, m, K, q;
  const int64_t *parent, *variable;    // monomial k is monomial parent[k] times variable[k]
  const double *shift, *scale, *speed;  // speed: null for order one
  double reach;
};

struct Course {
  long n, W, M;
  const double* steps;          // (M, n, W)
  const unsigned char* is_end;  // (M,) whether a sample follows
  const double* factors;        // (M, 3, n, W, q), or null
  const double* drift;          // (M, 3, n, W, d), or null
};

const long MOST = 64;  // of the variables, see compiled.py

template <long D>
constexpr long room() { return D ? D : MOST; }

const long PLACE[4] = {0, 1, 1, 2};  // of the stages of RK4 in a step: its start, middle and end
const double PART[4] = {0, 0.5, 0.5, 1};

// Scratch of one window.
struct Scratch {
  double *monomials, *slopes, *mixed;         // (K), (K, d), (K, m)
  double *point, *rate, *sum;                 // (d)
  double *phi, *jacobian;                     // (4, K q), (4, d, d)
  double *tangent, *forcing, *product;        // (d, d), (4, d, m), (d, d)
  double *change, *next;                      // (d, m K q + d)
};

// Values of all monomials at a point, and of their derivatives by its variables.
template <long D>
void monomials_at(const Law& law, const double* w, Scratch& s, bool with_slopes) {
  const long d = D ? D : law.d;
  double variables[room<D>()];
  for (long i = 0; i < d; ++i) variables[i] = law.shift[i] + law.scale[i] * w[i];
  s.monomials[0] = 1;
  if (with_slopes) memset(s.slopes, 0, d * sizeof(double));
  for (long k = 1; k < law.K; ++k) {
    const long p = law.parent[k], i = law.variable[k];
    const double value = variables[i], factor = s.monomials[p];
    s.monomials[k] = factor * value;
    if (!with_slopes) continue;
    for (long j = 0; j < d; ++j) s.slopes[k * d + j] = s.slopes[p * d + j] * value;
    s.slopes[k * d + i] += factor * law.scale[i];
  }
}

// Coefficients (K, m) of the monomials: of a context that moves, combinations of those (K q, m) of the law.
const double* mixed(const Law& law, const double* weights, const double* factors, Scratch& s) {
  if (!factors) return weights;
  const long m = law.m, q = law.q;
  for (long k = 0; k < law.K; ++k)
    for (long a = 0; a < m; ++a) {
      double sum = 0;
      for (long j = 0; j < q; ++j) sum += factors[j] * weights[(k * q + j) * m + a];
      s.mixed[k * m + a] = sum;
    }
  return s.mixed;
}

// Rate (d) at a point, from the monomials there.
template <long D>
void rate_at(const Law& law, const double* w, const double* coefficients, const double* drift, Scratch& s) {
  const long d = D ? D : law.d, m = D ? D : law.m;
  for (long i = 0; i < d - m; ++i) s.rate[i] = law.speed[i] * w[m + i];
  double latent[room<D>()] = {};
  for (long k = 0; k < law.K; ++k)
    for (long a = 0; a < m; ++a) latent[a] += s.monomials[k] * coefficients[k * m + a];
  for (long a = 0; a < m; ++a) s.rate[d - m + a] = latent[a];
  if (drift)
    for (long i = 0; i < d; ++i) s.rate[i] += drift[i];
}

// Jacobian (d, d) of the rate, from the slopes of the monomials.
template <long D>
void jacobian_at(const Law& law, const double* coefficients, const Scratch& s, double* J) {
  const long d = D ? D : law.d, m = D ? D : law.m;
  memset(J, 0, d * d * sizeof(double));
  for (long i = 0; i < d - m; ++i) J[i * d + m + i] = law.speed[i];
  for (long a = 0; a < m; ++a) {
    double row[room<D>()] = {};
    for (long k = 1; k < law.K; ++k) {
      const double c = coefficients[k * m + a];
      for (long j = 0; j < d; ++j) row[j] += c * s.slopes[k * d + j];
    }
    for (long j = 0; j < d; ++j) J[(d - m + a) * d + j] = row[j];
  }
}

// Terms (K q) of a law whose context moves: monomials times the terms of the context.
void terms_of(const Law& law, const double* factors, const Scratch& s, double* phi) {
  if (!factors) {
    memcpy(phi, s.monomials, law.K * sizeof(double));
    return;
  }
  for (long k = 0; k < law.K; ++k)
    for (long j = 0; j < law.q; ++j) phi[k * law.q + j] = s.monomials[k] * factors[j];
}

// product = left right, of d x d matrices.
template <long D>
void multiply(const Law& law, const double* left, const double* right, double* product) {
  const long d = D ? D : law.d;
  for (long i = 0; i < d; ++i)
    for (long j = 0; j < d; ++j) {
      double sum = 0;
      for (long k = 0; k < d; ++k) sum += left[i * d + k] * right[k * d + j];
      product[i * d + j] = sum;
    }
}

// Tangent A (d, d) and forcing F (4, d, m) of a step, with which derivatives S become A S + sum F_s phi_s: see
// `Motion.sensitivities`.
template <long D>
void linearise(const Law& law, double h, Scratch& s) {
  const long d = D ? D : law.d, m = D ? D : law.m, size = d * d;
  double* M[4];
  double* left = s.product;
  for (long stage = 0; stage < 4; ++stage) M[stage] = left + (1 + stage) * size;
  memset(M[3], 0, size * sizeof(double));
  for (long i = 0; i < d; ++i) M[3][i * d + i] = 1;
  const double unit[3] = {1, 2, 2}, share[3] = {h / 2, h / 2, h};
  memset(s.tangent, 0, size * sizeof(double));
  for (long stage = 2; stage >= 0; --stage) {
    multiply<D>(law, M[stage + 1], s.jacobian + (stage + 1) * size, left);
    for (long i = 0; i < size; ++i) {
      s.tangent[i] += left[i];
      M[stage][i] = share[stage] * left[i];
    }
    for (long i = 0; i < d; ++i) M[stage][i * d + i] += unit[stage];
  }
  multiply<D>(law, M[0], s.jacobian, left);
  for (long i = 0; i < size; ++i) s.tangent[i] = h / 6 * (s.tangent[i] + left[i]);
  for (long i = 0; i < d; ++i) s.tangent[i * d + i] += 1;
  for (long stage = 0; stage < 4; ++stage)
    for (long i = 0; i < d; ++i)
      for (long a = 0; a < m; ++a) s.forcing[(stage * d + i) * m + a] = h / 6 * M[stage][i * d + d - m + a];
}

// Derivatives (d, m, K q) by coefficients, and (d, d) by the start behind them, after a step.
template <long D>
void advance(const Law& law, bool by_start, Scratch& s) {
  const long d = D ? D : law.d, m = D ? D : law.m, Q = law.K * law.q, P = m * Q + d;
  const double *phi0 = s.phi, *phi1 = phi0 + Q, *phi2 = phi1 + Q, *phi3 = phi2 + Q;
  for (long i = 0; i < d; ++i) {
    for (long a = 0; a < m; ++a) {
      double* out = s.next + i * P + a * Q;
      const double *F = s.forcing + i * m + a;
      const double f0 = F[0], f1 = F[d * m], f2 = F[2 * d * m], f3 = F[3 * d * m];
      const double *slope = s.tangent + i * d, *old = s.change + a * Q;
#pragma omp simd
      for (long k = 0; k < Q; ++k) {
        double sum = f0 * phi0[k] + f1 * phi1[k] + f2 * phi2[k] + f3 * phi3[k];
        for (long j = 0; j < D; ++j) sum += slope[j] * old[j * P + k];
        out[k] = sum;
      }
      // of sizes that are not known sums are made one after the other
      for (long j = D; j < d; ++j)
        for (long k = 0; k < Q; ++k) out[k] += slope[j] * old[j * P + k];
    }
    if (!by_start) continue;
    for (long l = 0; l < d; ++l) {
      double sum = 0;
      for (long j = 0; j < d; ++j) sum += s.tangent[i * d + j] * s.change[j * P + m * Q + l];
      s.next[i * P + m * Q + l] = sum;
    }
  }
  double* swapped = s.change;
  s.change = s.next;
  s.next = swapped;
}

// Derivatives in the order of their columns: coefficients (K q, m), then starts.
template <long D>
void store(const Law& law, bool by_start, const Scratch& s, double* out) {
  const long d = D ? D : law.d, m = D ? D : law.m, Q = law.K * law.q, P = m * Q + d, columns = m * Q + (by_start ? d : 0);
  for (long i = 0; i < d; ++i) {
    const double* from = s.change + i * P;
    double* to = out + i * columns;
    for (long k = 0; k < Q; ++k)
      for (long a = 0; a < m; ++a) to[k * m + a] = from[a * Q + k];
    for (long l = m * Q; l < columns; ++l) to[l] = from[l];
  }
}

double held(double value, double reach) { return value < -reach ? -reach : value > reach ? reach : value; }

// One step of RK4 of a window, in place.
template <long D>
void step(const Law& law, const Course& course, long number, long run, long window, const double* weights, double* state,
          Scratch& s, bool linear) {
  const long d = D ? D : law.d, place = run * course.W + window, windows = course.n * course.W;
  const double h = course.steps[number * windows + place];
  for (long i = 0; i < d; ++i) s.sum[i] = 0;
  for (long stage = 0; stage < 4; ++stage) {
    const long row = (number * 3 + PLACE[stage]) * windows + place;
    const double* factors = course.factors ? course.factors + row * law.q : 0;
    const double* drift = course.drift ? course.drift + row * d : 0;
    for (long i = 0; i < d; ++i) s.point[i] = stage ? state[i] + PART[stage] * h * s.rate[i] : state[i];
    monomials_at<D>(law, s.point, s, linear);
    const double* coefficients = mixed(law, weights, factors, s);
    rate_at<D>(law, s.point, coefficients, drift, s);
    const double share = stage == 1 || stage == 2 ? 2 : 1;
    for (long i = 0; i < d; ++i) s.sum[i] += share * s.rate[i];
    if (!linear) continue;
    jacobian_at<D>(law, coefficients, s, s.jacobian + stage * d * d);
    terms_of(law, factors, s, s.phi + stage * law.K * law.q);
  }
  if (linear) linearise<D>(law, h, s);
  for (long i = 0; i < d; ++i) state[i] = held(state[i] + h / 6 * s.sum[i], law.reach);
}

// Rollouts of all windows, and derivatives unless null: see `evaluate`.
template <long D>
long rolled(const Law& law, const Course& course, const double* weights, long samples, bool by_start, double* states,
            double* derivatives) {
  const long d = law.d, m = law.m, K = law.K, Q = K * law.q, windows = course.n * course.W;
  const long P = m * Q + d, columns = m * Q + (by_start ? d : 0);
  const long small = K + K * d + K * m + 3 * d + 4 * Q + 4 * d * d + d * d + 4 * d * m + 5 * d * d;
  double* memory = static_cast<double*>(malloc((small + d + 2 * d * P) * sizeof(double)));
  if (!memory) return 1;
  double* free_place = memory;
  const auto taken = [&free_place](long size) { double* begin = free_place; free_place += size; return begin; };
  Scratch s;
  s.monomials = taken(K), s.slopes = taken(K * d), s.mixed = taken(K * m);
  s.point = taken(d), s.rate = taken(d), s.sum = taken(d);
  s.phi = taken(4 * Q), s.jacobian = taken(4 * d * d);
  s.tangent = taken(d * d), s.forcing = taken(4 * d * m), s.product = taken(5 * d * d);
  double* state = taken(d);
  s.change = taken(d * P), s.next = taken(d * P);
  for (long run = 0; run < course.n; ++run)
    for (long window = 0; window < course.W; ++window) {
      const long place = run * course.W + window;
      double* slopes = derivatives + place * samples * d * columns;
      memcpy(state, states + place * d, d * sizeof(double));
      if (derivatives) {
        memset(s.change, 0, d * P * sizeof(double));
        for (long i = 0; i < d; ++i) s.change[i * P + m * Q + i] = 1;
        store<D>(law, by_start, s, slopes);
      }
      long sample = 0;
      for (long number = 0; number < course.M; ++number) {
        step<D>(law, course, number, run, window, weights + run * Q * m, state, s, derivatives != 0);
        if (derivatives) advance<D>(law, by_start, s);
        if (!course.is_end[number]) continue;
        ++sample;
        memcpy(states + (sample * windows + place) * d, state, d * sizeof(double));
        if (derivatives) store<D>(law, by_start, s, slopes + sample * d * columns);
      }
    }
  free(memory);
  return 0;
}

}  // namespace

// States (L + 1, n, W, d), with starts in their first row, and, unless null, derivatives (n, W, L + 1, d, columns).
extern "C" long evaluate(double* states, double* derivatives, const double* weights, const double* steps,
                         const double* factors, const double* drift, const double* shift, const double* scale,
                         const double* speed, const unsigned char* is_end, const int64_t* parent,
                         const int64_t* variable, double reach, long d, long m, long K, long q, long n, long W, long M,
                         long L, long by_start) {
  const Law law = {d, m, K, q, parent, variable, shift, scale, speed, reach};
  const Course course = {n, W, M, steps, is_end, factors, drift};
  const auto all = [&](auto of_size) { return of_size(law, course, weights, L + 1, by_start, states, derivatives); };
  if (d != m) return all(rolled<0>);
  switch (d) {
    case 2: return all(rolled<2>);
    case 3: return all(rolled<3>);
    case 4: return all(rolled<4>);
    case 5: return all(rolled<5>);
    default: return all(rolled<0>);
  }
}
