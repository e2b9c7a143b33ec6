"""DEVICE.md from device.json: python -m studies.large.device_report."""

import json
from collections.abc import Mapping
from pathlib import Path

from romkit.core.files import atomic
from studies.markdown import table

HERE = Path(__file__).parent
ROWS = ("tensors", "POD-Galerkin, run", "NcAE, 10 latents, run", "decoding all contexts at one time")


def page(found: Mapping[str, dict]) -> str:
    """The page, of a core and a GPU."""
    core, gpu = found["cpu"], found["cuda"]
    n, contexts, steps = core["n"], core["contexts"], core["steps"]
    explicit = f"full model, one context, explicit RK4, {core['full model, explicit']['steps']:.0f} steps"
    rows = [_row(explicit, *(each["full model, explicit"]["run"] for each in (core, gpu)))]
    for modes in (name for name in core if name.startswith("rollouts")):
        label = modes.removeprefix("rollouts, ")
        rows += [_row(f"{label}: {_said(name, contexts, steps)}", core[modes][name], gpu[modes][name]) for name in ROWS]
    difference = max(entry["difference from a core"] for name, entry in gpu.items() if name.startswith("rollouts"))
    parts = [
        "# A million components, a thousand contexts, on a GPU\n\nWritten by device_report.py from device.json.\n",
        f"`Burgers2D` with n = {n}, a basis of {core['snapshots']} snapshots of the corners of the training range, and"
        f" {contexts} contexts drawn from it. Seconds by the clock on the wall, runs the best of three, on one core"
        f" ({core['device']}) and on a GPU ({gpu['device']})."
        " Other work ran beside the core at times, so its seconds are upper bounds. The network is not trained, which"
        " changes no time.\n",
        table(("what", "a core, s", "GPU, s", "times faster"), rows),
        f"The fastest full model, implicit in one sweep, takes {core['full model, compiled, a core']:.1f} s for one"
        f" context on the core. Final coordinates of POD-Galerkin on the GPU differ from those of a core by"
        f" {difference:.0e} of the largest.\n",
        f"A basis of {core['modes']} modes takes the core {core['basis']:.0f} s. There is no such number of the GPU:"
        f" `romkit.basis` took what was there back to the CPU, which is mended, and was not measured again. Moving the"
        f" snapshots there takes {gpu['moving snapshots']:.1f} s.\n",
    ]
    return "\n".join(parts)


def _said(name: str, contexts: int, steps: int) -> str:
    if name == "tensors":
        return "tensors, once"
    return f"{name} of {steps} steps, {contexts} contexts" if name.endswith("run") else name


def _row(name: str, core: float, gpu: float) -> tuple[str, str, str, str]:
    return name, f"{core:.3g}", f"{gpu:.2g}", f"{core / gpu:.3g}"


def write(results: Path = HERE / "device.json") -> None:
    """The page beside the results."""
    with atomic(results.with_name("DEVICE.md")) as temporary:
        temporary.write_text(page(json.loads(results.read_text())))


if __name__ == "__main__":
    write()
