"""Members that fail, stop or finish keep every byte of their buffers too, whatever the kind of layer; the others notice nothing."""
import random

import numpy as np
import pytest
import torch
from torch import nn

from chorus_testing import assert_close, export, state, tool
from training_case import turns_red


def net():
    return nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(48, 3))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("frozen")
    x = torch.randn(3, 20, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    y = np.random.RandomState(0).randn(3, 20, 3).astype("f4")
    np.savez(folder / "good.npz", x=x.numpy(), y=y)
    np.savez(folder / "pair.npz", x=x[[0, 2]].numpy(), y=y[[0, 2]])
    for k in range(3):
        torch.manual_seed(k)
        export(net(), folder / f"m{k}.pt", x[0])
    # The loss overflows; the batch's own statistics are ordinary numbers, and must not be taken over.
    y[1, 10] = 3e38
    np.savez(folder / "bad.npz", x=x.numpy(), y=y)
    tool("fuse", "m0.pt", "m1.pt", "m2.pt", "-o", "f.pt", "--loss", "mse", "--optimizer", "adamw", "--lr", "0.01,0.02,0.03", cwd=folder)
    tool("fuse", "m0.pt", "m2.pt", "-o", "pair.pt", "--loss", "mse", "--optimizer", "adamw", "--lr", "0.01,0.03", cwd=folder)
    return folder


def states(folder, data, *options, epochs="2", model="f.pt", members=range(3)):
    how = [] if "--on-nan" in options else ["--on-nan", "freeze"]
    tool("run", model, "--data", data, "--inputs", "stacked", "--batch-size", "5", "--shuffle", "none", "--epochs", epochs, "--quiet", "-o",
         "t.pt", *how, *options, cwd=folder)
    tool("split", "t.pt", "-o", "parts", "--force", cwd=folder)
    return [state(torch.jit.load(folder / "parts" / f"m{k}.pt")) for k in members]


def trained(folder, data, *options, **more):
    return [{n: t.numpy().tobytes() for n, t in member.items()} for member in states(folder, data, *options, **more)]


@pytest.mark.parametrize("options", [[], ["--amp", "bf16"], ["--ema", "0.9", "--clip-norm", "0.5"]], ids=" ".join)
def test_a_failing_member_with_batch_norm(folder, options):
    good, bad = trained(folder, "good.npz", *options), trained(folder, "bad.npz", *options)
    assert good[0] == bad[0] and good[2] == bad[2]
    values = {name: np.frombuffer(data, "i8" if name.endswith("tracked") else "f4") for name, data in bad[1].items()}
    assert all(np.isfinite(value).all() for value in values.values())
    # It saw two good batches of five rows; the third one failed.
    assert values["1.num_batches_tracked"] == 2


def test_members_that_finish_at_other_epochs(folder):
    all_three, early = trained(folder, "good.npz", epochs="3"), trained(folder, "good.npz", epochs="3,1,2")
    assert all_three[0] == early[0]
    assert early[1] == trained(folder, "good.npz", epochs="1")[1]
    assert early[2] == trained(folder, "good.npz", epochs="2")[2]


PRECISIONS = {"fp32": [], "bf16": ["--amp", "bf16"], "fp16": ["--amp", "fp16"]}
RECIPES = {
    "freeze": ["--on-nan", "freeze", "--ema", "0.9,0.5,0.8"],
    "skip": ["--on-nan", "skip", "--clip-norm", "0.5,1,2", "--accumulate", "2"],
    "continue": ["--on-nan", "continue", "--lr-schedule", "cosine@step:T_max=12"],
}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("recipe", RECIPES)
def test_one_member_diverges_at_a_random_step(folder, recipe, precision):
    """In its own data, at a row drawn by chance: overflow, NaN or infinity. Members finish at different epochs."""
    draw = random.Random(f"{recipe} {precision}")
    arrays = {name: array.copy() for name, array in np.load(folder / "good.npz").items()}
    row, value = draw.randrange(20), draw.choice([3e38, np.nan, np.inf])
    arrays["y"][1, row] = value
    np.savez(folder / "random.npz", **arrays)
    options = [*PRECISIONS[precision], *RECIPES[recipe]]
    good, bad = (trained(folder, data, *options, epochs="3,3,2") for data in ("good.npz", "random.npz"))
    assert good[0] == bad[0] and good[2] == bad[2], f"row {row} becomes {value}"
    assert good[1] != bad[1]
    if recipe != "continue":
        assert all(np.isfinite(np.frombuffer(data, "f4")).all() for name, data in bad[1].items() if not name.endswith("tracked"))
    # And the two are as they are without it.
    values = {"--ema": "0.9,0.8", "--clip-norm": "0.5,2"}
    pair = [values.get(before, option) for before, option in zip([None, *options], options)]
    without = states(folder, "pair.npz", *pair, epochs="3,2", model="pair.pt", members=(0, 2))
    with_it = states(folder, "random.npz", *options, epochs="3,3,2")
    tolerance = {"fp32": 1e-5, "bf16": 0.05, "fp16": 0.01}[precision]
    for k, want in zip((0, 2), without):
        assert_close(with_it[k], want, tolerance)


def test_a_fault_turns_these_tests_red(folder, monkeypatch):
    turns_red(monkeypatch, "nan_goes_on", test_one_member_diverges_at_a_random_step, folder, "freeze", "fp32")
