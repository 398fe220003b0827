"""A manifest's members are trained as a file's: options per member go by all of them, in the order of the command line."""
import json
import os
import random
import signal
import subprocess
import time

import numpy as np
import pytest
import torch
from torch import nn

from chorus_testing import BIN, assert_close, export, state, tool
from test_interruptions import clean, killed
from training_case import turns_red

K, N = 5, 12
LRS = [0.02, 0.05, 0.1, 0.03, 0.2]


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.last = nn.Linear(5, width), nn.Linear(width, 5)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("manifest")
    for k, width in enumerate((4, 5, 4, 5, 4)):
        torch.manual_seed(k)
        export(Net(width), folder / f"m{k}.pt", torch.randn(3, 5))
    rng = np.random.RandomState(0)
    np.savez(folder / "d.npz", x=rng.randn(N, 5).astype("f4"), y=rng.randint(0, 5, N), w=rng.rand(K, N))
    np.savez(folder / "s.npz", x=rng.randn(K, N, 5).astype("f4"), y=rng.randint(0, 5, (K, N)))
    subsets = [sorted(rng.choice(N, 5 + k, replace=False).tolist()) for k in range(K)]
    (folder / "rows.json").write_text(json.dumps(subsets))
    (folder / "h.csv").write_text("member,lr,epochs\n" + "".join(f"m{k},{LRS[k]},{k + 1}\n" for k in reversed(range(K))))
    for k in range(K):
        (folder / f"rows{k}.json").write_text(json.dumps(subsets[k:k + 1]))
        np.savez(folder / f"s{k}.npz", **{name: array[k] for name, array in np.load(folder / "s.npz").items()})
        data = dict(np.load(folder / "d.npz"))
        np.savez(folder / f"w{k}.npz", **dict(data, w=data["w"][k]))
    tool("fuse", *[f"m{k}.pt" for k in range(K)], "--group", "-o", "g.pt", "--no-verify", cwd=folder)
    return folder


HOW = ["--batch-size", "4", "--quiet", "--loss", "cross_entropy", "--optimizer", "adam"]
LR = ["--lr", ",".join(map(str, LRS))]


def run(folder, *options, model="g.json", out="t.pt", ok=True):
    return tool("run", model, *HOW, "-o", out, *options, cwd=folder, ok=ok)


def members(folder, file="t.json"):
    tool("split", file, "-o", "parts", "--force", cwd=folder)
    return [state(torch.jit.load(folder / "parts" / f"m{k}.pt")) for k in range(K)]


CASES = {
    "subset": (["--data", "d.npz", "--subset", "rows.json", *LR], lambda k: ["--data", "d.npz", "--subset", f"rows{k}.json", "--lr", LRS[k]]),
    "hparams": (["--data", "d.npz", "--hparams", "h.csv"], lambda k: ["--data", "d.npz", "--lr", LRS[k], "--epochs", k + 1]),
    "stacked": (["--data", "s.npz", "--inputs", "stacked", "--val", "s.npz", *LR], lambda k: ["--data", f"s{k}.npz", "--lr", LRS[k]]),
    "weights": (["--data", "d.npz", "--sample-weight", "w", *LR], lambda k: ["--data", f"w{k}.npz", "--sample-weight", "w", "--lr", LRS[k]]),
    "loss-arg": (["--data", "d.npz", "--loss-arg", "label_smoothing=0,0.1,0.2,0.3,0.4", *LR],
                 lambda k: ["--data", "d.npz", "--loss-arg", f"label_smoothing={k / 10}", "--lr", LRS[k]]),
    "bootstrap": (["--data", "d.npz", "--bootstrap", *LR], lambda k: ["--data", "d.npz", "--bootstrap", "--lr", LRS[k]]),
}


@pytest.mark.parametrize("name", CASES)
def test_members_are_as_if_alone(folder, name):
    options, alone = CASES[name]
    run(folder, *options)
    for k, got in enumerate(members(folder)):
        run(folder, *alone(k), model=f"m{k}.pt", out="solo.pt")
        assert_close(got, state(torch.jit.load(folder / "solo.pt")), 1e-5)


def test_folds_are_dealt_to_all_members(folder):
    """With lr 0, the mean over all rows is that of a fold and of the others."""
    log = run(folder, "--data", "d.npz", "--folds", K, "--lr", "0", "--log", "l.jsonl")
    assert log.returncode == 0
    groups = [json.loads((folder / f"l.{g}.jsonl").read_text().splitlines()[0]) for g in (0, 1)]
    data = np.load(folder / "d.npz")
    x, y = torch.from_numpy(data["x"]), torch.from_numpy(data["y"])
    for line in groups:
        for i, name in enumerate(line["members"]):
            with torch.no_grad():
                each = nn.functional.cross_entropy(torch.jit.load(folder / f"{name}.pt")(x), y)
            part = 3 if name in ("m0", "m1") else 2  # 12 rows in 5 folds
            assert (part * line["val_loss"][i] + (N - part) * line["train_loss"][i]) / N == pytest.approx(float(each), rel=1e-4)
    done = run(folder, "--data", "d.npz", "--folds", "3", ok=False)
    assert done.returncode == 1 and "--folds is 3, but there are 5 members" in done.stderr


def test_killed_at_random_moments(folder):
    clean(folder, "cut*", "whole*")
    options = ["--data", "d.npz", *HOW, *LR, "--epochs", "150,200,180,220,160", "--checkpoint-every", "2"]
    command = [str(BIN / "chorus-run"), "g.json", *options]
    begin = time.time()
    subprocess.run([*command, "-o", "whole.pt"], cwd=folder, check=True, capture_output=True)
    duration = time.time() - begin
    command += ["-o", "cut.pt"]
    draw, kills, over = random.Random(3), 0, False
    while not over:
        resume = ["--resume", "cut.ckpt"] if list(folder.glob("cut.*.ckpt")) else []
        how = draw.choice([signal.SIGKILL, signal.SIGTERM])
        over = killed([*command, *resume], folder, how, draw.uniform(0.3, 0.6) * duration if kills < 5 else 300)
        kills += 1
    assert kills > 1
    for g in (0, 1):
        assert (folder / f"whole.{g}.pt").read_bytes() == (folder / f"cut.{g}.pt").read_bytes()
    assert (folder / "cut.json").exists() and not list(folder.glob("cut*.ckpt"))


def test_the_second_group_is_resumed_and_the_first_not_again(folder):
    """The command that the interrupted run prints goes on; more epochs than before train the first group again."""
    clean(folder, "two*", "ck*")
    options = ["--data", "d.npz", *LR, "--checkpoint", "ck"]
    run(folder, *options, "--epochs", "3", out="two.pt")
    whole = [(folder / f"two.{g}.pt").read_bytes() for g in (0, 1)]
    clean(folder, "two*", "ck.1")
    # As if killed in the second group: the first one had ended.
    process = subprocess.Popen([str(BIN / "chorus-run"), "g.json", *map(str, HOW), *map(str, options[:-2]), "--epochs", "3,60,3,60,3", "-o", "two.pt",
                                "--checkpoint", "k2"], cwd=folder, stderr=subprocess.PIPE, text=True, env=os.environ)
    while not (folder / "k2.0" / "ended").exists() and process.poll() is None:
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    message = process.communicate()[1]
    assert process.returncode == 130 and message.rstrip().endswith("--resume k2"), message
    before = (folder / "d.npz").read_bytes()
    arrays = dict(np.load(folder / "d.npz"))
    arrays["x"][0] += 1
    np.savez(folder / "d.npz", **arrays)
    done = run(folder, "--data", "d.npz", *LR, "--epochs", "3,60,3,60,3", "--resume", "k2", out="two.pt", ok=False)
    assert done.returncode == 1
    assert "k2.0: error: the model or the data are not what they were when this group ended" in done.stderr
    (folder / "d.npz").write_bytes(before)
    done = run(folder, "--data", "d.npz", *LR, "--epochs", "3,60,3,60,3", "--resume", "k2", out="two.pt")
    assert "two.0.pt: remark: this group had ended before the interruption" in done.stderr
    assert (folder / "two.0.pt").read_bytes() == whole[0] and (folder / "two.json").exists()


def test_a_missing_folder_is_named(folder):
    done = run(folder, "--data", "d.npz", *LR, "--resume", "nowhere", ok=False)
    assert done.returncode == 1
    assert "nowhere: error: there is no such folder to resume from: those of the groups are 'nowhere.0', ..." in done.stderr
    done = run(folder, "--data", "d.npz", "--resume", "nowhere", model="g.0.pt", ok=False)
    assert done.returncode == 1 and "nowhere: error: there is no such folder to resume from" in done.stderr


@pytest.mark.parametrize("name", CASES)
def test_a_fault_turns_these_tests_red(folder, monkeypatch, name):
    turns_red(monkeypatch, "members_by_place", test_members_are_as_if_alone, folder, name)
