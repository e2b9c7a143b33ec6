// Steps of the trapezoidal rule for Burgers' equation on a square, cell by cell from the inflow corner.

#include <math.h>
#include <stdlib.h>

// Takes `steps` steps of length dt from state (2, N, N) in place. `source` (N) is added to u, by column; `inflow` is
// half the square of u at the left; h is the width of a cell. Upwind fluxes make the equations triangular, and those of
// one cell, u (1 + a (u + v) / 2) = A and v (1 + a (u + v) / 2) = B, have a closed solution.
extern "C" void evaluate(double* state, const double* source, double inflow, long N, double h, double dt, long steps) {
  const double a = dt / 2 / h;
  double *u = state, *v = state + N * N;
  struct Fluxes { double uu, uv, vv; };
  // plain memory: the C++ library is not there with every compiler
  Fluxes* old_south = static_cast<Fluxes*>(malloc(2 * N * sizeof(Fluxes)));
  Fluxes* new_south = old_south + N;
  for (long step = 0; step < steps; ++step) {
    for (long i = 0; i < 2 * N; ++i) old_south[i] = {0, 0, 0};
    for (long j = 0; j < N; ++j) {
      Fluxes old_west = {inflow, 0, 0}, new_west = {inflow, 0, 0};
      for (long i = 0; i < N; ++i) {
        const long k = j * N + i;
        const Fluxes old = {u[k] * u[k] / 2, u[k] * v[k] / 2, v[k] * v[k] / 2};
        const double A = u[k] + dt * source[i] + a * (old_west.uu - old.uu + old_south[i].uv - old.uv)
                         + a * (new_west.uu + new_south[i].uv);
        const double B = v[k] + a * (old_west.uv - old.uv + old_south[i].vv - old.vv)
                         + a * (new_west.uv + new_south[i].vv);
        const double sum = 2 * (A + B) / (1 + sqrt(1 + 2 * a * (A + B)));
        u[k] = A / (1 + a * sum / 2);
        v[k] = B / (1 + a * sum / 2);
        old_west = old_south[i] = old;
        new_west = new_south[i] = {u[k] * u[k] / 2, u[k] * v[k] / 2, v[k] * v[k] / 2};
      }
    }
  }
  free(old_south);
}
