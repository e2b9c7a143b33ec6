"""Processor time and bounds of one certificate of each model."""

from collections.abc import Callable
from types import SimpleNamespace

import xarray as xr

import romkit
from benchmarks.harness import Parts, Result, timed

PACKAGES = ("cvxpy", "scs")


def certificate(name: str, radius: str, context_radius: float) -> Callable[[], xr.Dataset]:
    """Certify the shipped model of this name, in coordinates of its basis."""
    model = romkit.load(name)
    model = model.of_coordinates() if model.basis is not None else model
    return lambda: romkit.certify(
        model, model.frame.context_shift, radius=float(radius), context_radius=context_radius
    )


def measure(config: SimpleNamespace, device: str, found: Result) -> Parts:
    """Seconds of a certificate and bounds of P, for each case."""
    done = found.setdefault("cases", [])
    for name, radius, context_radius in config.cases[len(done) :]:
        certify = certificate(name, radius, context_radius)
        bounds = certify().sel(map="projection")
        case = {"model": name, "radius": radius, "context_radius": context_radius}
        case |= {
            key: str(float(bounds[key])) for key in ("upper", "lower", "context_upper")
        }  # JSON knows no infinity
        done.append(case | {"cpu_s": timed(certify)[0]})
        yield
