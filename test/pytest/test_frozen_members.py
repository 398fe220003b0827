"""Members that fail, stop or finish keep every byte of their buffers too, whatever the kind of layer; the others notice nothing."""
import numpy as np
import pytest
import torch
from torch import nn

from chorus_testing import export, state, tool


def net():
    return nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(48, 3))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("frozen")
    x = torch.randn(3, 20, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    y = np.random.RandomState(0).randn(3, 20, 3).astype("f4")
    np.savez(folder / "good.npz", x=x.numpy(), y=y)
    for k in range(3):
        torch.manual_seed(k)
        export(net(), folder / f"m{k}.pt", x[0])
    # The loss overflows; the batch's own statistics are ordinary numbers, and must not be taken over.
    y[1, 10] = 3e38
    np.savez(folder / "bad.npz", x=x.numpy(), y=y)
    tool("fuse", "m0.pt", "m1.pt", "m2.pt", "-o", "f.pt", "--loss", "mse", "--optimizer", "adamw", "--lr", "0.01,0.02,0.03", cwd=folder)
    return folder


def trained(folder, data, *options, epochs="2"):
    tool("run", "f.pt", "--data", data, "--inputs", "stacked", "--batch-size", "5", "--shuffle", "none", "--epochs", epochs, "--quiet", "-o",
         "t.pt", "--on-nan", "freeze", *options, cwd=folder)
    tool("split", "t.pt", "-o", "parts", "--force", cwd=folder)
    return [{n: t.numpy().tobytes() for n, t in state(torch.jit.load(folder / "parts" / f"m{k}.pt")).items()} for k in range(3)]


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
