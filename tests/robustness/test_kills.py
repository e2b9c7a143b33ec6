"""Work that is killed twice ends bit-equal to work that was left alone; tests.endurance kills it more often."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.endurance.kills import WORKS

DRIVER = """
import sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from tests.endurance.kills import WORKS, survive
print(survive(WORKS[sys.argv[1]], 2, Path(sys.argv[2]))["kills"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("work", WORKS)
def test_what_is_killed_goes_on_bit_for_bit(work, tmp_path):
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "TQDM_DISABLE": "1"}
    command = [sys.executable, "-c", DRIVER, work, str(tmp_path)]
    driver = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert driver.returncode == 0, driver.stderr[-2000:]
    assert driver.stdout == "2\n"
