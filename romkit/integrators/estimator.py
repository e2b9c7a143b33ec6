"""What learned dynamics have in common before they are fitted: settings with one `fit`."""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import replace

import xarray as xr

from romkit.boundary import Part, Seed, checked
from romkit.data import check_states
from romkit.errors import InputError
from romkit.integrators.base import LearnedField
from romkit.integrators.domain import Domain
from romkit.integrators.samples import LatentSamples
from romkit.integrators.selection import HELD_OUT, choose
from romkit.integrators.sources import ProjectionFamily, differentiated_samples, encoded_samples


class Estimator(abc.ABC):
    """Settings of a fit; `fit` returns the law, which `romkit.rollout`, `follow` and `forecast` take as dynamics.

    Example:
        >>> import romkit
        >>> from romkit.integrators import LAWS, Estimator
        >>> all(issubclass(law, Estimator) for law in LAWS.values())
        True
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.15, 3.18])
        >>> law = LAWS["dmd"]().fit(romkit.fit("pod", data, latent_dim=2), data)
        >>> law.latent_dim, law.context_names
        (2, ('F',))
    """

    @checked
    def fit(
        self,
        projection: ProjectionFamily,
        data: xr.Dataset,
        *,
        seed: Seed = 0,
        select: Mapping[str, Sequence[object]] | None = None,
        validation: Part | None = None,
    ) -> LearnedField:
        """The law of a projection on a dataset, of second order where that has a variable `acceleration`.

        Args:
            projection: trained on such data; a stack of seeds gives a stack of laws.
            data: in romkit's schema; without `velocity`, rates come from differentiation in time, and `source` of the
                law says so.
            seed: of whatever is random in the fit, the same for all laws of a stack.
            select: settings to choose by rollouts of held-out trajectories, and the values to choose from:
                `{"threshold": (0.01, 0.03, 0.1), "degree": (2, 3)}`. `source` of the law says which were taken.
            validation: share of the trajectories that is held out for this choice, by default a quarter; the law is
                then fitted to all.

        Raises:
            InputError: data of another shape than the projection's, times that cannot be used, or `validation` with
                nothing to choose.
        """
        samples = self.samples(projection, data).scaled()
        return self.fit_samples(samples, seed=seed, select=select, validation=validation)

    @staticmethod
    @checked
    def samples(projection: ProjectionFamily, data: xr.Dataset) -> LatentSamples:
        """What `fit` fits to, before it is scaled."""
        check_states(data)
        return (encoded_samples if "velocity" in data else differentiated_samples)(projection, data)

    @checked
    def fit_samples(
        self,
        samples: object,
        zdot: object = None,
        context: object = None,
        *,
        seed: Seed = 0,
        select: Mapping[str, Sequence[object]] | None = None,
        validation: Part | None = None,
        **labels: object,
    ) -> LearnedField:
        """The law of samples, scaled only if they are (`LatentSamples.scaled`).

        Args:
            samples: `LatentSamples`; or z, with `zdot`, `context` and labels as in `LatentSamples.first_order`.
            zdot: ż where z is given.
            context: of each z.
            seed: as in `fit`.
            select: as in `fit`.
            validation: as in `fit`.
            **labels: `names`, `parameters`, `times`, `source`.

        Raises:
            InputError: shapes that do not match, values that are not finite, or too few samples.
        """
        if not isinstance(samples, LatentSamples):
            samples = LatentSamples.first_order(samples, zdot, context, **labels)
        elif given := [*labels, *(name for name, value in (("zdot", zdot), ("context", context)) if value is not None)]:
            fix = "drop it: LatentSamples have their own"
            raise InputError(", ".join(given), expected="nothing beside samples", got="a value", fix=fix)
        if select is not None:
            return choose(self, samples, select, HELD_OUT if validation is None else validation, seed)
        if validation is not None:
            own = hasattr(self, "validation")  # by which it chooses what no select names
            fix = f"give it to {type(self).__name__}" if own else "name what to choose by it, or drop it"
            raise InputError("validation", expected="select beside it", got=validation, fix=fix)
        return replace(self._fit(samples, seed), domain=Domain.of(samples))

    @abc.abstractmethod
    def _fit(self, samples: LatentSamples, seed: int) -> LearnedField: ...
