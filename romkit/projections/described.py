"""What a projection tells of itself."""

from collections.abc import Mapping, Sequence

from romkit.display import Display, first_line, pairs, with_unit


class Described(Display):
    """The facts of a projection: method, what it was made for, sizes, and how it was trained, seed by seed."""

    def __repr__(self) -> str:
        signature, seeds = self.normalization.signature, self.seeds or 1
        behind = "" if self.basis is None else f" behind {self.basis!r}"
        sizes = f"{self.latent_dim} latent of {len(signature.state_names)} components{behind}"
        made = [f"context {', '.join(signature.context_names) or 'none'}", pairs(self.config)]
        return f"{type(self).__name__}({'; '.join([sizes, *filter(None, made)])}{f'; {seeds} seeds' * (seeds > 1)})"

    def facts(self) -> dict[str, str]:
        """Those that all seeds share, and where there is one alone, its training."""
        signature = self.normalization.signature
        middle, half = self.normalization.context_shift, self.normalization.context_scale
        ends = zip(signature.context_names, (middle - half).tolist(), (middle + half).tolist(), strict=True)
        context = ", ".join(
            f"{name} {f'{(a + b) / 2:.4g}' if name in signature.fixed else f'{a:.4g} ... {b:.4g}'}{with_unit(unit)}"
            for (name, a, b), unit in zip(ends, signature.context_units, strict=True)
        )
        shared = {
            "method": f"{self.name}: {first_line(type(self))}",
            "system": signature.system or "data without a system",
            "dimensions": f"{self.latent_dim} latent, {len(signature.state_names)} state components",
            "context": context or "none",
            "config": pairs(self.config),
            "parameters": str(sum(p.numel() for p in self.parameters())),
        }
        if self.basis is not None:
            shared["basis"] = repr(self.basis)
        trained = self.trainings()
        return shared | (trained[0] if len(trained) == 1 else {"seeds": ", ".join(row["seed"] for row in trained)})

    def trainings(self) -> list[dict[str, str]]:
        """How each seed was trained; none where that is not known."""
        return [_training(report) for report in self._reports() if "seed" in report]

    def curves(self) -> tuple[str, Sequence[Sequence[float]]]:
        """The losses of all seeds over epochs."""
        return "loss over epochs, logarithmic", [losses for r in self._reports() if len(losses := r.get("losses", []))]

    def _reports(self) -> list[Mapping[str, object]]:
        return self.report.get("seeds", [self.report])


def _training(report: Mapping[str, object]) -> dict[str, str]:
    losses = report.get("losses", [])
    found = {
        "seed": str(report["seed"]),
        "data": pairs(report.get("data", {})),
        "recipe": f"{report.get('preset', '')}: {pairs(report.get('recipe', {}))}",
        "training": f"{report.get('seconds', 0.0):.3g} s on {report.get('device', 'an unknown device')}",
        "loss": f"{losses[-1]:.3g} at the end" if len(losses) else "none to minimise",
    }
    return found | ({"warning": "diverged: the parameters are the last finite ones"} if report["diverged"] else {})
