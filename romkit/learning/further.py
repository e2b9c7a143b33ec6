"""Advice on further latents, by the manifolds that were tried and the best law on each."""

from collections.abc import Sequence
from dataclasses import dataclass

from romkit.learning.trials import Trial

GAINED = 0.85
"""Error of the last manifold that was tried, and of its law, in those of the one before, up to which
a further latent may help.
"""

BETTER = 0.8
"""Error of a manifold of more latents, in that of the model's, up to which it is named."""

MUCH_WORSE = 2.0
"""Error of a law on a manifold of more latents, in that of the model's, from which on it is not
named, however few contexts compared the two."""

FEW_TO_CHOOSE = 5
"""Contexts up to which a comparison of laws says little: each law lacks one, and has a wide gap."""


@dataclass(frozen=True)
class Manifolds:
    """Manifolds that were tried for a model.

    Attributes:
        trials: with the best law on each.
        latent_dim: of the model.
        contexts: number of those that it has learned from.
        components: of a state.
    """

    trials: Sequence[Trial]
    latent_dim: int
    contexts: int
    components: int

    def advice(self) -> str:
        """Sentence on further latents, where a manifold that has them is better, or where each that
        was added has helped; empty where nothing shows that they help.
        """
        better = self._better_manifold()
        if better is not None:
            return self._of_manifold(better)
        further = self._further_latents()
        if further is None:
            return ""
        before, last = self._with_law[-2:]
        return (
            f" At contexts that were left out, the law of {before.latent_dim} latents erred by "
            f"{before.law_error:.2g}, that of {last.latent_dim} by {last.law_error:.2g}: try "
            f"latent_dim={further}."
        )

    def advice_on_larger(self) -> str:
        """Sentence on the best of the larger manifolds, whatever its law; empty where none is better."""
        of_model = self._trial_of_model()
        larger = [trial for trial in self.trials if trial.latent_dim > self.latent_dim]
        if of_model is None or not larger:
            return ""
        best = min(larger, key=lambda trial: trial.projection_error)
        if best.projection_error > BETTER * of_model.projection_error:
            return ""
        if best.law is not None and best.law_error > of_model.law_error:
            return ""
        return (
            f" {best.latent_dim} latents take the error of the manifold from "
            f"{of_model.projection_error:.2g} to {best.projection_error:.2g}: compare learn(..., "
            f"latent_dim={best.latent_dim})."
        )

    def _better_manifold(self) -> Trial | None:
        """A manifold of more latents that is better than the model's, whose law was not tried, or
        was compared with so few contexts that it may be better with all.
        """
        of_model = self._trial_of_model()
        if of_model is None:
            return None
        few = self.contexts <= FEW_TO_CHOOSE
        for trial in self.trials:
            if trial.law is None:
                is_open = few or not self._further_latents_failed(of_model)
            else:
                is_open = few and trial.law_error <= MUCH_WORSE * of_model.law_error
            is_larger = trial.latent_dim > self.latent_dim
            if (
                is_open
                and is_larger
                and trial.projection_error <= BETTER * of_model.projection_error
            ):
                return trial
        return None

    def _further_latents_failed(self, of_model: Trial) -> bool:
        """Whether a law of more latents than the model has was tried, and was no better."""
        for trial in self.trials:
            is_larger = trial.latent_dim > self.latent_dim
            if is_larger and trial.law is not None and trial.law_error >= of_model.law_error:
                return True
        return False

    def _of_manifold(self, trial: Trial) -> str:
        """Sentence on what a manifold of more latents would bring."""
        latents = trial.latent_dim
        brings = (
            f" {latents} latents take the error of the manifold from "
            f"{self._trial_of_model().projection_error:.2g} to {trial.projection_error:.2g}"
        )
        if trial.law is None:
            return f"{brings}: try learn(..., latent_dim={latents})."
        return (
            f"{brings}, but the law on them erred by {trial.law_error:.2g} at training contexts that "
            f"were left out; of {self.contexts} contexts that says little: compare learn(..., "
            f"latent_dim={latents})."
        )

    def _trial_of_model(self) -> Trial | None:
        """The manifold of the model among those that were tried."""
        for trial in self.trials:
            if trial.latent_dim == self.latent_dim:
                return trial
        return None

    @property
    def _with_law(self) -> list[Trial]:
        """Manifolds with a law."""
        return [trial for trial in self.trials if trial.law is not None]

    def _further_latents(self) -> int | None:
        """A number of latents that was not tried, where the last ones that were have helped."""
        if len(self._with_law) < 2:
            return None
        before, last = self._with_law[-2:]
        most = max(trial.latent_dim for trial in self.trials)
        is_rising = before.latent_dim < last.latent_dim == self.latent_dim
        further = last.latent_dim + (last.latent_dim - before.latent_dim)
        is_new = most < further <= self.components
        helped = last.projection_error <= GAINED * before.projection_error
        helped = helped and last.law_error <= GAINED * before.law_error
        if is_rising and is_new and helped:
            return further
        return None
