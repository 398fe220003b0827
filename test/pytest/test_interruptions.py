"""A run that is killed again and again, at random moments, ends with the bytes of the run that was left alone."""
import json
import random
import signal
import subprocess
import time

import pytest
import torch

from chorus_testing import BIN, export, tool
from training_case import K, Net, single  # noqa: F401

RICH = ["--data", "d.npz", "--batch-size", "1", "--quiet", "--optimizer", "adam", "--lr-schedule", "cosine@step:T_max=400", "--val-fraction", "0.25",
        "--patience", "1000", "--accumulate", "2", "--clip-norm", "0.5", "--loss", "mse", "--checkpoint-every", "7", "--epochs", "40,55,60"]
RUNS = {
    "fused": ["fused.pt", "--lr", "0.02,0.05,0.1", "--ema", "0.9"],
    "fused fp16": ["fused.pt", "--lr", "0.02,0.05,0.1", "--swa", "9", "--amp", "fp16", "--shuffle", "member"],
    "unfused": ["fused.pt", "--lr", "0.02,0.05,0.1", "--ema", "0.9", "--unfused"],
}
KILLS = 6


def killed(command, folder, how, after):
    """True: it was over before."""
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        message = process.communicate(timeout=after)[1]
    except subprocess.TimeoutExpired:
        process.send_signal(how)
        message = process.communicate()[1]
    assert process.returncode in (0, -signal.SIGKILL, 130), message
    return process.returncode == 0


def clean(folder, *names):
    for name in names:
        for path in folder.glob(name):
            for inner in path.glob("*") if path.is_dir() else []:
                inner.unlink()
            path.rmdir() if path.is_dir() else path.unlink()


@pytest.mark.parametrize("name", RUNS)
def test_killed_at_random_moments(single, name):  # noqa: F811
    clean(single.folder, "cut.pt", "cut.ckpt", "whole.pt")
    command = [str(BIN / "chorus-run"), *RUNS[name], *RICH]
    begin = time.time()
    subprocess.run([*command, "-o", "whole.pt"], cwd=single.folder, check=True, capture_output=True)
    duration = time.time() - begin
    command += ["-o", "cut.pt"]
    draw, kills, over = random.Random(name), 0, False
    while not over:
        resume = ["--resume", "cut.ckpt"] if (single.folder / "cut.ckpt" / "checkpoint.pt").exists() else []
        how = draw.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM])
        over = killed([*command, *resume], single.folder, how, draw.uniform(0.15, 0.5) * duration if kills < KILLS else 300)
        kills += 1
    assert kills > 1, "it was never interrupted"
    assert (single.folder / "whole.pt").read_bytes() == (single.folder / "cut.pt").read_bytes()
    assert not (single.folder / "cut.ckpt").exists() and not list(single.folder.glob(".chorus-tmp*"))
