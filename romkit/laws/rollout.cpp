// Rollouts of polynomial laws by steps of RK4, and their derivatives by coefficients and starts.
//
// Arrays are those of sensitivities.py, in rows: n runs of W windows, M steps, d variables of which the last m have the
// law's rates, K monomials, q terms of a context that moves (1 where none does). D, SIZE of compiled.py, is d where it is
// known to the compiler, which then unrolls loops over variables, and 0 elsewhere. Windows are followed `LANES` at a
// time: what is small of a step is computed for all of them by the same instructions.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Before loops over variables, whose number the compiler may know; by itself it keeps them, and their sums in memory.
#define UNROLLED _Pragma("GCC unroll 8")

namespace {

const long LANES = 4;
typedef double Lanes __attribute__((vector_size(LANES * sizeof(double))));

const long WIDTH = 8, ROWS = 4;  // columns of derivatives at a time, and rows
typedef double Columns __attribute__((vector_size(WIDTH * sizeof(double))));

Columns columns_at(const double* place) {
  Columns columns;
  memcpy(&columns, place, sizeof columns);  // at any address
  return columns;
}

struct Law {
  long d, m, K, q;
  const int64_t *parent, *variable;    // monomial k is monomial parent[k] times variable[k]
  const double *shift, *scale, *speed;  // speed: null for order one
  double reach;
};

struct Course {
  long n, W, M, L;
  const double* steps;          // (M, n, W)
  const unsigned char* is_end;  // (M,) whether a sample follows
  const double* factors;        // (M, 3, n, W, q), or null
  const double* drift;          // (M, 3, n, W, d), or null
};

// Terms K q of a latent, up to whole `Columns`; those behind them are zeros.
long padded(const Law& law) { return (law.K * law.q + WIDTH - 1) / WIDTH * WIDTH; }

// What becomes of the states at samples, and of their derivatives.
struct Target {
  double* states;       // (L + 1, n, W, d), or null
  double* derivatives;  // (n, W, L + 1, d, columns), or null
  // or residuals with their derivatives: rows of each run, of samples that are seen before a window is lost
  double* rows;                // (n, W L d, columns + 1), or null
  int64_t* numbers;            // (n,) of rows
  const double* truth;         // (L + 1, n, W, d)
  const unsigned char* seen;   // (L + 1, n, W)
  double lost, steep;
  bool by_start;
};

const long MOST = 64;  // of the variables, see compiled.py

template <long D>
constexpr long room() { return D ? D : MOST; }

const long PLACE[4] = {0, 1, 1, 2};  // of the stages of RK4 in a step: its start, middle and end
const double PART[4] = {0, 0.5, 0.5, 1};

// Scratch of a block of windows.
struct Scratch {
  Lanes *weights, *mixed;                   // (K q, m), (K, m)
  Lanes *monomials, *slopes;                // (K), (K, d)
  Lanes *point, *rate, *sum, *state;        // (d)
  Lanes *factors;                           // (q)
  Lanes *jacobian, *product;                // (4, d, d), (5, d, d)
  Lanes *tangent, *forcing;                 // (d, d), (4, d, m)
  double* phi;                              // (LANES, 4, K q), of padded K q
  double *change[LANES], *next;             // (d, m K q + d), likewise
};

// Values of all monomials at a point, and of their derivatives by its variables.
template <long D>
void monomials_at(const Law& law, Scratch& s, bool with_slopes) {
  const long d = D ? D : law.d;
  Lanes variables[room<D>()];
  for (long i = 0; i < d; ++i) variables[i] = law.shift[i] + law.scale[i] * s.point[i];
  s.monomials[0] = Lanes{} + 1.0;
  if (with_slopes) memset(s.slopes, 0, d * sizeof(Lanes));
  for (long k = 1; k < law.K; ++k) {
    const long p = law.parent[k], i = law.variable[k];
    const Lanes value = variables[i], factor = s.monomials[p];
    s.monomials[k] = factor * value;
    if (!with_slopes) continue;
    UNROLLED for (long j = 0; j < d; ++j) s.slopes[k * d + j] = s.slopes[p * d + j] * value;
    s.slopes[k * d + i] += factor * law.scale[i];
  }
}

// Coefficients (K, m) of the monomials: of a context that moves, combinations of those (K q, m) of the law.
const Lanes* mixed(const Law& law, bool moves, Scratch& s) {
  if (!moves) return s.weights;
  const long m = law.m, q = law.q;
  for (long k = 0; k < law.K; ++k)
    for (long a = 0; a < m; ++a) {
      Lanes sum = {};
      for (long j = 0; j < q; ++j) sum += s.factors[j] * s.weights[(k * q + j) * m + a];
      s.mixed[k * m + a] = sum;
    }
  return s.mixed;
}

// Rate (d) at a point, from the monomials there.
template <long D>
void rate_at(const Law& law, const Lanes* coefficients, Scratch& s) {
  const long d = D ? D : law.d, m = D ? D : law.m;
  for (long i = 0; i < d - m; ++i) s.rate[i] = law.speed[i] * s.point[m + i];
  Lanes latent[room<D>()] = {};
  for (long k = 0; k < law.K; ++k)
    UNROLLED for (long a = 0; a < m; ++a) latent[a] += s.monomials[k] * coefficients[k * m + a];
  UNROLLED for (long a = 0; a < m; ++a) s.rate[d - m + a] = latent[a];
}

// Jacobian (d, d) of the rate, from the slopes of the monomials.
template <long D>
void jacobian_at(const Law& law, const Lanes* coefficients, const Scratch& s, Lanes* J) {
  const long d = D ? D : law.d, m = D ? D : law.m;
  memset(J, 0, d * d * sizeof(Lanes));
  for (long i = 0; i < d - m; ++i) J[i * d + m + i] = Lanes{} + law.speed[i];
  for (long a = 0; a < m; ++a) {
    Lanes row[room<D>()] = {};
    for (long k = 1; k < law.K; ++k) {
      const Lanes c = coefficients[k * m + a];
      UNROLLED for (long j = 0; j < d; ++j) row[j] += c * s.slopes[k * d + j];
    }
    UNROLLED for (long j = 0; j < d; ++j) J[(d - m + a) * d + j] = row[j];
  }
}

// product = left right, of d x d matrices.
template <long D>
void multiply(const Law& law, const Lanes* left, const Lanes* right, Lanes* product) {
  const long d = D ? D : law.d;
  for (long i = 0; i < d; ++i)
    for (long j = 0; j < d; ++j) {
      Lanes sum = {};
      UNROLLED for (long k = 0; k < d; ++k) sum += left[i * d + k] * right[k * d + j];
      product[i * d + j] = sum;
    }
}

// Tangent A (d, d) and forcing F (4, d, m) of a step h, with which derivatives S become A S + sum F_s phi_s: see
// `Motion.sensitivities`.
template <long D>
void linearise(const Law& law, Lanes h, Scratch& s) {
  const long d = D ? D : law.d, m = D ? D : law.m, size = d * d;
  Lanes* M[4];
  Lanes* left = s.product;
  for (long stage = 0; stage < 4; ++stage) M[stage] = left + (1 + stage) * size;
  memset(M[3], 0, size * sizeof(Lanes));
  for (long i = 0; i < d; ++i) M[3][i * d + i] = Lanes{} + 1.0;
  const double unit[3] = {1, 2, 2};
  const Lanes share[3] = {h / 2, h / 2, h};
  memset(s.tangent, 0, size * sizeof(Lanes));
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
  for (long i = 0; i < d; ++i) s.tangent[i * d + i] += 1.0;
  for (long stage = 0; stage < 4; ++stage)
    for (long i = 0; i < d; ++i)
      for (long a = 0; a < m; ++a) s.forcing[(stage * d + i) * m + a] = h / 6 * M[stage][i * d + d - m + a];
}

// Sums (R, Q) of the columns of four stages (4, Q) and of d rows of a length P, with factors for each of R rows.
template <long R, long D, typename Factors>
void combine(const double* phi, const double* old, long Q, long unknown, long P, const double (*forcing)[4],
             const Factors* slope, double* out) {
  const long d = D ? D : unknown;
  for (long k = 0; k < Q; k += WIDTH) {
    Columns sum[R];
    const Columns first = columns_at(phi + k);
    UNROLLED for (long r = 0; r < R; ++r) sum[r] = forcing[r][0] * first;
    for (long stage = 1; stage < 4; ++stage) {
      const Columns terms = columns_at(phi + stage * Q + k);
      UNROLLED for (long r = 0; r < R; ++r) sum[r] += forcing[r][stage] * terms;
    }
    for (long j = 0; j < d; ++j) {
      const Columns before = columns_at(old + j * P + k);
      UNROLLED for (long r = 0; r < R; ++r) sum[r] += slope[r][j] * before;
    }
    UNROLLED for (long r = 0; r < R; ++r) memcpy(out + r * P + k, &sum[r], sizeof(Columns));
  }
}

// Derivatives (d, m, K q) by coefficients, and (d, d) by the start behind them, of a window after a step. Columns are
// taken `WIDTH` at a time for several rows, so that what is read of memory is used for all of these.
template <long D>
void advance(const Law& law, bool by_start, long lane, Scratch& s) {
  const long d = D ? D : law.d, m = D ? D : law.m, Q = padded(law), P = m * Q + d;
  const double* phi = s.phi + lane * 4 * Q;
  const double* change = s.change[lane];
  for (long a = 0; a < m; ++a)
    for (long i = 0; i < d; i += ROWS) {
      const long rows = d - i < ROWS ? d - i : ROWS;
      double forcing[ROWS][4], slope[ROWS][room<D>()];
      for (long r = 0; r < rows; ++r) {
        for (long stage = 0; stage < 4; ++stage) forcing[r][stage] = s.forcing[(stage * d + i + r) * m + a][lane];
        for (long j = 0; j < d; ++j) slope[r][j] = s.tangent[(i + r) * d + j][lane];
      }
      const double* old = change + a * Q;
      double* out = s.next + i * P + a * Q;
      if (rows == ROWS)
        combine<ROWS, D>(phi, old, Q, d, P, forcing, slope, out);
      else
        for (long r = 0; r < rows; ++r) combine<1, D>(phi, old, Q, d, P, forcing + r, slope + r, out + r * P);
    }
  if (by_start)
    for (long i = 0; i < d; ++i)
      for (long l = 0; l < d; ++l) {
        double sum = 0;
        for (long j = 0; j < d; ++j) sum += s.tangent[i * d + j][lane] * change[j * P + m * Q + l];
        s.next[i * P + m * Q + l] = sum;
      }
  double* swapped = s.change[lane];
  s.change[lane] = s.next;
  s.next = swapped;
}

// Derivatives of a window in the order of their columns, coefficients (K q, m), then starts, in rows of a length.
template <long D>
void store(const Law& law, bool by_start, const double* change, long length, double* out) {
  const long d = D ? D : law.d, m = D ? D : law.m, terms = law.K * law.q, Q = padded(law), P = m * Q + d;
  for (long i = 0; i < d; ++i) {
    const double* from = change + i * P;
    double* to = out + i * length;
    for (long k = 0; k < terms; ++k)
      for (long a = 0; a < m; ++a) to[k * m + a] = from[a * Q + k];
    if (!by_start) continue;
    for (long l = 0; l < d; ++l) to[m * terms + l] = from[m * Q + l];
  }
}

bool below(double value, double limit) { return value < limit && value > -limit; }

// Residuals of a sample with their derivatives, as rows of its run; whether the window is not lost there.
template <long D>
bool keep(const Law& law, const Target& target, const double* truth, const Lanes* state, long lane, const double* change,
          double* rows) {
  const long d = D ? D : law.d, m = D ? D : law.m, columns = m * law.K * law.q, Q = m * padded(law), P = Q + d;
  for (long i = 0; i < d; ++i) {
    const double distance = state[i][lane] - truth[i];
    if (!below(distance, target.lost)) return false;
    rows[i * (columns + 1) + columns] = distance;
  }
  for (long i = 0; i < d; ++i) {
    const double* slopes = change + i * P;
    long gentle = 0;
    for (long k = 0; k < Q; ++k) gentle += below(slopes[k], target.steep);
    if (gentle < Q) return false;
  }
  store<D>(law, false, change, columns + 1, rows);
  return true;
}

// One step of RK4 of a block of windows, in place.
template <long D>
void step(const Law& law, const Course& course, long number, const long* places, Scratch& s, bool linear) {
  const long d = D ? D : law.d, windows = course.n * course.W, Q = padded(law);
  Lanes h;
  for (long lane = 0; lane < LANES; ++lane) h[lane] = course.steps[number * windows + places[lane]];
  for (long i = 0; i < d; ++i) s.sum[i] = Lanes{};
  for (long stage = 0; stage < 4; ++stage) {
    for (long i = 0; i < d; ++i) s.point[i] = stage ? s.state[i] + PART[stage] * h * s.rate[i] : s.state[i];
    const long before = (number * 3 + PLACE[stage]) * windows;
    if (course.factors)
      for (long j = 0; j < law.q; ++j)
        for (long lane = 0; lane < LANES; ++lane) s.factors[j][lane] = course.factors[(before + places[lane]) * law.q + j];
    monomials_at<D>(law, s, linear);
    const Lanes* coefficients = mixed(law, course.factors != 0, s);
    rate_at<D>(law, coefficients, s);
    if (course.drift)
      for (long i = 0; i < d; ++i)
        for (long lane = 0; lane < LANES; ++lane) s.rate[i][lane] += course.drift[(before + places[lane]) * d + i];
    const double share = stage == 1 || stage == 2 ? 2 : 1;
    for (long i = 0; i < d; ++i) s.sum[i] += share * s.rate[i];
    if (!linear) continue;
    jacobian_at<D>(law, coefficients, s, s.jacobian + stage * d * d);
    for (long k = 0; k < law.K; ++k)
      for (long j = 0; j < law.q; ++j) {
        const Lanes term = course.factors ? s.monomials[k] * s.factors[j] : s.monomials[k];
        for (long lane = 0; lane < LANES; ++lane) s.phi[(lane * 4 + stage) * Q + k * law.q + j] = term[lane];
      }
  }
  if (linear) linearise<D>(law, h, s);
  for (long i = 0; i < d; ++i) {
    const Lanes moved = s.state[i] + h / 6 * s.sum[i];
    for (long lane = 0; lane < LANES; ++lane) {
      const double value = moved[lane];
      s.state[i][lane] = value < -law.reach ? -law.reach : value > law.reach ? law.reach : value;
    }
  }
}

// Windows at `count` places, at most `LANES`, along their course.
template <long D>
void follow(const Law& law, const Course& course, const double* starts, const double* weights, const long* places,
            long count, const Target& target, Scratch& s) {
  const long d = law.d, m = law.m, terms = law.K * law.q, Q = padded(law), P = m * Q + d;
  const long columns = m * terms + (target.by_start ? d : 0), length = m * terms + 1, windows = course.n * course.W;
  const bool linear = target.derivatives || target.rows;
  bool follows[LANES];  // up to where a window is lost
  for (long lane = 0; lane < LANES; ++lane) {
    const long place = places[lane], run = place / course.W;
    for (long k = 0; k < terms * m; ++k) s.weights[k][lane] = weights[run * terms * m + k];
    for (long i = 0; i < d; ++i) s.state[i][lane] = starts[place * d + i];
    follows[lane] = lane < count && (!target.rows || target.seen[place]);
    if (!linear) continue;
    memset(s.change[lane], 0, d * P * sizeof(double));
    for (long i = 0; i < d; ++i) s.change[lane][i * P + m * Q + i] = 1;
    if (target.derivatives && follows[lane])
      store<D>(law, target.by_start, s.change[lane], columns, target.derivatives + place * (course.L + 1) * d * columns);
  }
  long sample = 0;
  for (long number = 0; number < course.M; ++number) {
    step<D>(law, course, number, places, s, linear);
    const bool ends = course.is_end[number];
    sample += ends;
    for (long lane = 0; lane < count; ++lane) {
      if (!follows[lane]) continue;
      const long place = places[lane], run = place / course.W;
      if (linear) advance<D>(law, target.by_start, lane, s);
      if (!ends) continue;
      const long at = sample * windows + place;
      if (target.states)
        for (long i = 0; i < d; ++i) target.states[at * d + i] = s.state[i][lane];
      if (target.derivatives) {
        double* out = target.derivatives + (place * (course.L + 1) + sample) * d * columns;
        store<D>(law, target.by_start, s.change[lane], columns, out);
      }
      if (target.rows && target.seen[at]) {
        double* rows = target.rows + (run * course.W * course.L * d + target.numbers[run]) * length;
        follows[lane] = keep<D>(law, target, target.truth + at * d, s.state, lane, s.change[lane], rows);
        if (follows[lane]) target.numbers[run] += d;
      }
    }
  }
}

// Memory for small numbers of a block, one piece after the other; null where there is none.
struct Memory {
  Lanes* begin = 0;
  long taken = 0;
  Lanes* take(long size) {
    Lanes* piece = begin ? begin + taken : 0;
    taken += size;
    return piece;
  }
};

void divide(const Law& law, Memory& memory, Scratch& s) {
  const long d = law.d, m = law.m, K = law.K, Q = padded(law), P = m * Q + d;
  s.weights = memory.take(K * law.q * m), s.mixed = memory.take(K * m);
  s.monomials = memory.take(K), s.slopes = memory.take(K * d);
  s.point = memory.take(d), s.rate = memory.take(d), s.sum = memory.take(d), s.state = memory.take(d);
  s.factors = memory.take(law.q);
  s.jacobian = memory.take(4 * d * d), s.product = memory.take(5 * d * d);
  s.tangent = memory.take(d * d), s.forcing = memory.take(4 * d * m);
  s.phi = reinterpret_cast<double*>(memory.take(4 * Q));
  const long size = (d * P + LANES - 1) / LANES;
  for (long lane = 0; lane < LANES; ++lane) s.change[lane] = reinterpret_cast<double*>(memory.take(size));
  s.next = reinterpret_cast<double*>(memory.take(size));
}

// Rollouts of all windows: 1 where there is no memory.
template <long D>
long rolled(const Law& law, const Course& course, const double* starts, const double* weights, const Target& target) {
  Scratch s;
  Memory memory;
  divide(law, memory, s);
  const long unit = sizeof(Lanes);
  void* allocated = malloc(memory.taken * unit + unit);
  if (!allocated) return 1;
  const uintptr_t address = reinterpret_cast<uintptr_t>(allocated);
  memory.begin = reinterpret_cast<Lanes*>((address + unit - 1) / unit * unit);
  memory.taken = 0;
  divide(law, memory, s);
  memset(s.phi, 0, LANES * 4 * padded(law) * sizeof(double));
  const long windows = course.n * course.W;
  for (long first = 0; first < windows; first += LANES) {
    const long count = windows - first < LANES ? windows - first : LANES;
    long places[LANES];
    // lanes without a window follow the last one
    for (long lane = 0; lane < LANES; ++lane) places[lane] = first + (lane < count ? lane : count - 1);
    follow<D>(law, course, starts, weights, places, count, target, s);
  }
  free(allocated);
  return 0;
}

}  // namespace

// States (L + 1, n, W, d), with starts in their first row, and, unless null, derivatives (n, W, L + 1, d, columns); or,
// unless null, rows (n, W L d, K q m + 1) of derivatives and residuals from the truth, as many as `numbers` (n,) say.
extern "C" long evaluate(double* states, double* derivatives, double* rows, int64_t* numbers, const double* truth,
                         const unsigned char* seen, const double* weights, const double* steps, const double* factors,
                         const double* drift, const double* shift, const double* scale, const double* speed,
                         const unsigned char* is_end, const int64_t* parent, const int64_t* variable, double reach,
                         double lost, double steep, long d, long m, long K, long q, long n, long W, long M, long L,
                         long by_start) {
  const Law law = {d, m, K, q, parent, variable, shift, scale, speed, reach};
  const Course course = {n, W, M, L, steps, is_end, factors, drift};
  const Target target = {rows ? 0 : states, derivatives, rows, numbers, truth, seen, lost, steep, by_start != 0};
  return rolled<SIZE>(law, course, states, weights, target);
}
