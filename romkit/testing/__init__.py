"""The contracts, for romkit's tests and for classes of your own: each raises AssertionError with
the first broken rule.

For example:

    romkit.testing.check_projection(model)                    # tangents, Jacobians, batching, stacks, idempotency
    romkit.testing.check_dynamics(Galerkin(), model)          # finds motions on an invariant manifold
    romkit.testing.check_system(Lorenz96(transient=2.0))      # shapes, field, metric, datasets
    romkit.testing.check_solver(RK4(0.01), order=4)           # accuracy, order, members, times
"""

from romkit.testing.dynamics import check_dynamics
from romkit.testing.projections import check_projection
from romkit.testing.solvers import check_solver
from romkit.testing.systems import check_system

__all__ = ["check_dynamics", "check_projection", "check_solver", "check_system"]
