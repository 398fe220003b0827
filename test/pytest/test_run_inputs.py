"""What a run is given: integers, JSON of one meaning, and, when it goes on, the model and the data that it began with."""
import json

import numpy as np
import pytest
import torch
from torch import nn

from chorus_testing import export, tool
from training_case import K, make, single, turns_red  # noqa: F401

TRAIN = ["run", "fused.pt", "--data", "data.npz", "--batch-size", "4", "--quiet", "--loss", "mse", "--optimizer", "adam", "--lr", "0.05"]


def rows(seed, n=12):
    rng = np.random.RandomState(seed)
    return rng.randn(n, 3).astype("f4")


@pytest.fixture
def started(single, tmp_path):  # noqa: F811
    """A run of 2 epochs whose checkpoint stays, in a folder of its own."""
    for k in range(K):
        (tmp_path / f"m{k}.pt").write_bytes((single.folder / f"m{k}.pt").read_bytes())
    (tmp_path / "fused.pt").write_bytes((single.folder / "fused.pt").read_bytes())
    np.savez(tmp_path / "data.npz", x=rows(1), y=rows(2))
    np.savez(tmp_path / "val.npz", x=rows(3, 5), y=rows(4, 5))
    (tmp_path / "rates.txt").write_text("0.1 0.05 0.02 0.01 0.005")
    (tmp_path / "groups.csv").write_text("pattern,weight_decay\n*.bias,0.1\n")
    (tmp_path / "table.csv").write_text("epochs,clip_norm\n" + "2,1\n" * K)
    (tmp_path / "rows.json").write_text(json.dumps([[0, 1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 0]]))
    np.save(tmp_path / "weights.npy", np.linspace(0.5, 1.5, 12).astype("f4"))
    return tmp_path


EXTRA = {
    "model": [],
    "optimizer in the file": [],
    "x": [],
    "y": [],
    "val": ["--val", "val.npz"],
    "split": ["--val-fraction", "0.25"],
    "schedule": ["--lr-schedule", "table:file=rates.txt"],
    "groups": ["--param-groups", "groups.csv"],
    "hparams": ["--hparams", "table.csv"],
    "subset": ["--subset", "rows.json"],
    "weights": ["--sample-weight", "weights.npy"],
    "metric": ["--val", "val.npz", "--metric", "metric.pt"],
}


def change(folder, what):
    """Writes other content under the same name; returns what the message names."""
    if what == "model":
        torch.manual_seed(99)
        export(type(make(0))(), folder / "m1.pt", torch.zeros(2, 3))
        tool("fuse", "m0.pt", "m1.pt", "m2.pt", "-o", "fused.pt", "--no-verify", cwd=folder)
        return "the model's numbers are not what they were"
    if what in ("x", "y", "split"):
        np.savez(folder / "data.npz", **{"x": rows(1), "y": rows(2), **{"y" if what == "y" else "x": rows(7)}})
        return f"the array '{'y' if what == 'y' else 'x'}' of --data"
    if what == "val":
        np.savez(folder / "val.npz", x=rows(3, 5), y=rows(8, 5))
        return "the array 'y' of --val"
    if what == "schedule":
        (folder / "rates.txt").write_text("0.1 0.05 0.02 0.01 0.006")
        return "the schedule's table 'rates.txt'"
    if what == "groups":
        (folder / "groups.csv").write_text("pattern,weight_decay\n*.bias,0.2\n")
        return "the optimizer"
    if what == "hparams":
        (folder / "table.csv").write_text("epochs,clip_norm\n" + "2,1\n" * (K - 1) + "2,0.5\n")
        return "the table of --hparams"
    if what == "subset":
        (folder / "rows.json").write_text(json.dumps([[0, 1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 1]]))
        return "what --subset lists"
    if what == "weights":
        np.save(folder / "weights.npy", np.linspace(0.5, 1.6, 12).astype("f4"))
        return "what --sample-weight gives"
    metric(folder, 2.0)
    return "the metric 'metric.pt'"


class Metric(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, output, target):
        return -self.factor * (output - target).abs().mean()


def metric(folder, factor):
    torch.jit.script(Metric(factor)).save(str(folder / "metric.pt"))


@pytest.mark.parametrize("what", [name for name in EXTRA if name != "optimizer in the file"])
def test_a_run_does_not_go_on_with_other_content(started, what):
    metric(started, 1.0)
    command = [*TRAIN, *EXTRA[what], *([] if what == "hparams" else ["--epochs", "2"])]
    tool(*command, "-o", "a.pt", "--checkpoint", "ck", cwd=started)
    tool(*command, "-o", "a.pt", "--resume", "ck", cwd=started)  # nothing has changed
    named = change(started, what)
    done = tool(*command, "-o", "b.pt", "--resume", "ck", ok=False, cwd=started)
    assert done.returncode == 1 and done.stderr.startswith("ck: error: " + named), done.stderr
    assert "when the run began: the hash is " in done.stderr and not (started / "b.pt").exists()


def test_what_a_fused_file_brings_along_counts_as_the_model(started):
    for lr in ("0.05", "0.06"):
        tool("fuse", "m0.pt", "m1.pt", "m2.pt", "-o", "f.pt", "--no-verify", "--loss", "mse", "--optimizer", "sgd", "--lr", lr, cwd=started)
        command = ["run", "f.pt", "--data", "data.npz", "--quiet", "-o", "a.pt", "--epochs"]
        if lr == "0.05":
            tool(*command, "1", "--checkpoint", "ck", cwd=started)
            tool(*command, "2", "--resume", "ck", cwd=started)
    done = tool(*command, "3", "--resume", "ck", ok=False, cwd=started)
    assert done.returncode == 1 and done.stderr.startswith("ck: error: the optimizer is not what it was"), done.stderr


def test_epochs_may_grow_and_not_shrink(started):
    for epochs in ("1", "2"):
        (started / "table.csv").write_text(f"epochs,clip_norm\n{epochs},1\n1,1\n{epochs},1\n")
        tool(*TRAIN, "--hparams", "table.csv", "-o", "a.pt", *(["--checkpoint", "ck"] if epochs == "1" else ["--resume", "ck"]), cwd=started)
    again = tool(*TRAIN, "--hparams", "table.csv", "-o", "b.pt", "--resume", "ck", cwd=started)
    assert again.stderr == "remark: the run had ended before: no epoch is left to train\n"
    assert (started / "a.pt").read_bytes() == (started / "b.pt").read_bytes()
    (started / "table.csv").write_text("epochs,clip_norm\n2,1\n1,1\n1,1\n")
    done = tool(*TRAIN, "--hparams", "table.csv", "-o", "c.pt", "--resume", "ck", ok=False, cwd=started)
    assert (done.returncode, done.stderr) == (
        1, "error: member 2 ('m2') has trained for 2 epochs, but --epochs is 1\n  note: --epochs is the total, also of a run that goes on\n")
    assert not (started / "c.pt").exists()


HUGE = str(2**64)


@pytest.mark.parametrize("option,value,form", [
    ("--seed", "-1", "from 0 to 2^64-1"),
    ("--seed", HUGE, "from 0 to 2^64-1"),
    ("--seed", "1.5", "from 0 to 2^64-1"),
    ("--accumulate", "0", "of at least 1"),
    ("--accumulate", HUGE, "of at least 1"),
    ("--checkpoint-every", "-3", "of at least 1"),
    ("--checkpoint-every", str(2**63), "of at least 1"),
    ("--folds", "1", "from 2 to 1000000"),
    ("--folds", HUGE, "from 2 to 1000000"),
    ("--threads", str(2**32 + 1), "from 1 to 4096"),
])
def test_integers_are_taken_as_they_are_or_not_at_all(started, option, value, form):
    done = tool(*TRAIN, "-o", "n.pt", f"{option}={value}", ok=False, cwd=started)
    assert (done.returncode, done.stderr) == (2, f"error: {option}: '{value}' is not an integer {form}\n")


@pytest.mark.parametrize("option,value", [("--epochs", HUGE), ("--batch-size", str(2**63)), ("--patience", HUGE), ("--swa", HUGE),
                                          ("--member-seed", HUGE)])
def test_integers_of_members_have_bounds_too(started, option, value):
    train = [a for a in TRAIN if a not in ("--batch-size", "4")]
    done = tool(*train, "--val-fraction", "0.2", "-o", "n.pt", f"{option}={value}", ok=False, cwd=started)
    assert (done.returncode, done.stderr) == (1, f"error: {option}: '{value}' is out of range\n")
    if option == "--member-seed":
        return
    (started / "t.json").write_text(json.dumps([{option[2:]: 2**64 - 1 if option == "--patience" else int(value)}] * K))
    done = tool(*train, "--val-fraction", "0.2", "-o", "n.pt", "--hparams", "t.json", ok=False, cwd=started)
    assert done.returncode == 1 and "is not an integer" in done.stderr, done.stderr


def test_a_leading_zero_is_decimal(started):
    for seed, out in (("010", "a.pt"), ("10", "b.pt")):
        tool(*TRAIN, "--seed", seed, "-o", out, cwd=started)
    assert (started / "a.pt").read_bytes() == (started / "b.pt").read_bytes()


@pytest.mark.parametrize("option,text,message", [
    ("--config", '{"epochs": 1,\n "seed": 3,\n "seed": 4}', "f.json:3: error: the key 'seed' is there twice in one object\n"),
    ("--config", '{"batch_size": 1, "batch-size": 2}', "error: --config: 'f.json' gives 'batch-size' twice, the second time as 'batch_size'\n"),
    ("--hparams", '[{"clip_norm": 1},\n{"clip_norm": 1, "clip_norm": 2},\n{"clip_norm": 3}]',
     "f.json:2: error: the key 'clip_norm' is there twice in one object\n"),
    ("--hparams", '[{"clip_norm": 1},\n{"clip_norm": 1, "clip-norm": 2},\n{"clip_norm": 3}]',
     "f.json: error: row 1: column 'clip-norm' is there twice\n"),
])
def test_a_key_has_one_value(started, option, text, message):
    (started / "f.json").write_text(text)
    command = [a for a in TRAIN if a not in ("--batch-size", "4")]
    done = tool(*command, "-o", "n.pt", option, "f.json", ok=False, cwd=started)
    assert done.returncode in (1, 2) and done.stderr == message
    assert not (started / "n.pt").exists()


def test_a_manifest_has_each_key_once(started):
    (started / "all.json").write_text('{"format": 1, "members": ["m0"],\n"groups": [], "groups": [{"file": "fused.pt", "members": ["m0"]}]}')
    done = tool("run", "all.json", *TRAIN[2:], "-o", "n.pt", ok=False, cwd=started)
    assert (done.returncode, done.stderr) == (1, "all.json:2: error: the key 'groups' is there twice in one object\n")


def test_tables_say_how_they_name_things(started):
    (started / "g.csv").write_text("pattern,betas\n*.bias,0.9\n")
    done = tool(*TRAIN, "-o", "n.pt", "--param-groups", "g.csv", ok=False, cwd=started)
    assert (done.returncode, done.stderr) == (1, "g.csv: error: a cell holds one number, and 'betas' are two\n"
                                                 "  help: columns 'beta1' and 'beta2' give them\n")
    names = "members go by their names: 'm0', 'm1', 'm2' (without the column, rows are in the order of members)\n"
    for file, text, place in (("h.csv", "member,clip_norm\nm0,1\n1,2\n2,3\n", "line 3"),
                              ("h.json", '[{"member": "m0"}, {"member": 1}, {"member": 2}]', "row 1")):
        (started / file).write_text(text)
        done = tool(*TRAIN, "-o", "n.pt", "--hparams", file, ok=False, cwd=started)
        assert (done.returncode, done.stderr) == (1, f"{file}: error: {place}: there is no member '1'; " + names)


def test_a_fused_file_is_no_member(started):
    done = tool("fuse", "m0.pt", "fused.pt", "--input", "f32[N,3]", "-o", "n.pt", ok=False, cwd=started)
    assert (done.returncode, done.stderr) == (
        1, "fused.pt: error: this is a fused file, not a member\n  help: chorus-split writes the members of a fused file\n")
