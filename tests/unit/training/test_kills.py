"""A run that is killed again and again, at random moments, ends bit-equal to one that was left alone."""

import subprocess
import sys

KILLS = 20
DRIVER = """
import json, os, random, signal, sys, time
import torch
from safetensors import safe_open
torch.set_num_threads(1)
import romkit

kills, folder = int(sys.argv[1]), sys.argv[2]
data = romkit.systems.Lorenz96(transient=5.0).dataset(F=[3.14, 3.15, 3.18], duration=1.0)
saved = os.path.join(folder, "cae-seeds-1-2.safetensors")


def run(checkpoint, epochs=1000):
    settings = {"layers": (2, 36), "batch_size": 100, "engine": "torch"}
    return romkit.fit("cae", data, seeds=[1, 2], epochs=epochs, checkpoint=checkpoint, **settings)


def version():
    return os.stat(saved).st_mtime_ns if os.path.exists(saved) else 0


run(None, epochs=1)  # so that the children, which inherit this process, start quickly
random.seed(0)
for kill in range(kills):
    before, child = version(), os.fork()
    if child == 0:
        run(folder)
        os._exit(0)
    while version() == before:
        time.sleep(0.001)
    time.sleep(random.uniform(0.0, 0.1))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the run ended before it was killed"
    with safe_open(saved, framework="pt") as checkpoint:
        epochs = len(json.loads(checkpoint.metadata()["romkit"])["said"]["losses"])
resumed, whole = run(folder), run(None)
assert all(torch.equal(a, b) for a, b in zip(resumed.parameters(), whole.parameters(), strict=True))
print(epochs)
"""


def test_every_kill_leaves_a_checkpoint_that_resumes_bit_for_bit(tmp_path):
    command = [sys.executable, "-c", DRIVER, str(KILLS), str(tmp_path)]
    driver = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert driver.returncode == 0, driver.stderr[-2000:]
    assert KILLS <= int(driver.stdout) < 1000
