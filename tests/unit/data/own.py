"""Data of foreign shape, small: a wave in a ring, of a user who has never heard of romkit's schema."""

import numpy as np
import xarray as xr

TIME = np.linspace(0.0, 2.0, 81)
POINTS = np.linspace(0.0, 2 * np.pi, 16, endpoint=False)


def wave(speed, amplitude=1.0):
    """(T, 16) and its rate."""
    phase = POINTS - speed * TIME[:, None]
    return amplitude * np.sin(phase), -speed * amplitude * np.cos(phase)


def waves(speeds=(1.0, 1.5, 2.0, 3.0)):
    """The schema, with velocities and a declared context."""
    pairs = [wave(speed) for speed in speeds]
    return xr.Dataset(
        {
            name: (("trajectory", "time", "component"), np.stack([pair[k] for pair in pairs]))
            for k, name in enumerate(("state", "velocity"))
        },
        coords={"time": TIME, "speed": ("trajectory", np.array(speeds), {"role": "context"})},
    )


def plane(runs=4):
    """Two variables over (y, x), an integer parameter, labels, a forcing, other names of the
    dimensions.
    """
    y, x = np.linspace(0, 1, 3), np.linspace(0, 1, 5)
    rng = np.random.default_rng(0)
    u, v = (rng.normal(size=(runs, len(TIME), len(y), len(x))) for _ in range(2))
    return xr.Dataset(
        {
            "u": (("run", "t", "y", "x"), u, {"units": "m/s"}),
            "v": (("run", "t", "y", "x"), v.astype(np.float32), {"units": "K"}),
            "force": (("run", "t"), rng.normal(size=(runs, len(TIME)))),
            "wall": (("y", "x"), np.ones((3, 5))),
        },
        coords={
            "t": ("t", TIME, {"units": "s"}),
            "y": ("y", y, {"units": "m"}),
            "x": ("x", x, {"units": "m"}),
            "k": ("run", np.arange(1, runs + 1)),
            "day": ("run", np.linspace(0.0, 1.0, runs)),
            "name": ("run", np.array([f"r{k}" for k in range(runs)])),
        },
    )
