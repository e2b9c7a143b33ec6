"""A run that is killed again and again, at random moments, ends bit-equal to one that was left alone."""

import subprocess
import sys

DRIVER = """
import os, random, signal, sys, time
import torch
torch.set_num_threads(1)
import romkit

kills, folder = int(sys.argv[1]), sys.argv[2]
data = romkit.systems.Lorenz96(transient=5.0).dataset(F=[3.14, 3.15, 3.18], duration=1.0)


def run(checkpoint):
    return romkit.fit("ncae", data, seeds=[1, 2], epochs=300, batch_size=32, compile=False, checkpoint=checkpoint)


random.seed(0)
done = killed = 0
while killed < kills and not done:
    child = os.fork()
    if child == 0:
        run(folder)
        os._exit(0)
    time.sleep(random.uniform(0.05, 0.6))
    done, _ = os.waitpid(child, os.WNOHANG)
    if not done:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        killed += 1
        from safetensors import safe_open
        for file in os.listdir(folder):
            if file.endswith(".safetensors"):
                with safe_open(os.path.join(folder, file), framework="pt") as saved:
                    epochs = len(saved.get_tensor("losses"))
resumed, whole = run(folder), run(None)
assert all(torch.equal(a, b) for a, b in zip(resumed.parameters(), whole.parameters(), strict=True))
print(killed, epochs)
"""


def test_every_kill_leaves_a_checkpoint_that_resumes_bit_for_bit(tmp_path):
    driver = subprocess.run(
        [sys.executable, "-c", DRIVER, "20", str(tmp_path)], capture_output=True, text=True, timeout=300
    )
    assert driver.returncode == 0, driver.stderr[-2000:]
    killed, epochs = map(int, driver.stdout.split())
    assert killed == 20
    assert 0 < epochs < 300
