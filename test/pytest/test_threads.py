"""The tools start with idle threads that sleep, unless the user says how they wait."""
# ctest: quick
import os
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from chorus_testing import BIN


def environment_of(folder, **variables):
    """The variables that chorus-run has while it trains."""
    torch.jit.trace(torch.nn.Linear(2, 2), torch.zeros(3, 2)).save(str(folder / "m.pt"))
    np.savez(folder / "d.npz", x=np.ones((8, 2), "f4"), y=np.ones((8, 2), "f4"))
    given = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_", "KMP_"))} | variables
    with subprocess.Popen([BIN / "chorus-run", "m.pt", "--loss", "mse", "--optimizer", "sgd", "--lr", "0", "--data", "d.npz", "--epochs", "1000000",
                           "--log", "log", "-o", "o.pt"], cwd=folder, env=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        while not (folder / "log").exists() and run.poll() is None:
            time.sleep(0.02)
        entries = Path(f"/proc/{run.pid}/environ").read_bytes().split(b"\0")
        name = Path(f"/proc/{run.pid}/comm").read_text().strip()
        run.kill()
    assert name == "chorus-run"
    return dict(entry.decode().split("=", 1) for entry in entries if b"=" in entry)


def test_idle_threads_sleep(tmp_path):
    assert environment_of(tmp_path)["OMP_WAIT_POLICY"] == "passive"


@pytest.mark.parametrize("name, value", [("OMP_WAIT_POLICY", "active"), ("GOMP_SPINCOUNT", "100"), ("OMP_NUM_THREADS", "1")])
def test_the_users_choice_stays(tmp_path, name, value):
    seen = environment_of(tmp_path, **{name: value})
    assert seen[name] == value and (name == "OMP_WAIT_POLICY" or "OMP_WAIT_POLICY" not in seen)
