"""A process with one version of romkit, which does tasks as it is told: a line "VERB<tab>SIZE" in,
a line of JSON out.

    PYTHONPATH=FOLDER_OF_ROMKIT python worker.py
"""

import contextlib
import importlib.metadata
import io
import json
import os
import sys
import time
import warnings

version = importlib.metadata.version


def version_of(package: str) -> str:
    """Version of a package; a commit whose package had another name is not installed."""
    try:
        return version(package)
    except importlib.metadata.PackageNotFoundError:
        return "0"


importlib.metadata.version = version_of

HERE = os.path.dirname(os.path.abspath(__file__))


def done(ready: dict, verb: str, size: str) -> dict[str, object]:
    """CPU seconds of a call, those of compilers that it started among them, and its error."""
    import tasks

    if (verb, size) not in ready:
        ready.clear()  # one task in memory at a time
        ready[verb, size] = tasks.ready(verb, size)
    before = os.times()
    error = ready[verb, size]()
    after = os.times()
    seconds = sum(after[:4]) - sum(before[:4])
    return {"seconds": seconds, "error": error if isinstance(error, float) else None}


def main() -> None:
    warnings.simplefilter("ignore")
    ready: dict = {}
    sys.path.insert(0, HERE)
    began = time.process_time()
    import romkit

    out = sys.stdout
    print(
        json.dumps({"romkit": romkit.__file__, "import": time.process_time() - began}), flush=True
    )
    for line in sys.stdin:
        verb, size = line.rstrip("\n").split("\t")
        try:
            with (
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()),
            ):
                answer = done(ready, verb, size)
        except Exception as error:  # an older version may lack the verb, or refuse
            answer = {"failed": f"{type(error).__name__}: {error}"[:200]}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
