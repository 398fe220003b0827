"""Predictions of models whose rows are not the first dimension of what they return: batches are joined along the rows."""
import numpy as np
import pytest
import torch
from torch import nn

from chorus_testing import export, tool
from training_case import turns_red

K, T, C = 3, 4, 3


class SequenceFirst(nn.Module):
    """[N,T,C] to [T,N,C] and [N,C]."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(C, C)

    def forward(self, x):
        y = self.last(x)
        return y.transpose(0, 1), y.mean(1)


class RowsTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(C, C)

    def forward(self, x):
        y = self.last(x).mean(1)
        return y @ y.t()


def made(build, k):
    torch.manual_seed(k)
    return build()


def files(folder, build):
    x = torch.randn(7, T, C, generator=torch.Generator().manual_seed(1))
    np.savez(folder / "d.npz", x=x.numpy())
    for k in range(K):
        export(made(build, k), folder / f"m{k}.pt", x[:5])
    tool("fuse", "m0.pt", "m1.pt", "m2.pt", "-o", "f.pt", cwd=folder)
    return x


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 6, 7])  # 4: as many rows as steps
def test_sequence_first(tmp_path, batch):
    x = files(tmp_path, SequenceFirst)
    tool("run", "f.pt", "--data", "d.npz", "--predict", "p.npz", "--batch-size", batch, cwd=tmp_path)
    got = np.load(tmp_path / "p.npz")
    for k in range(K):
        with torch.no_grad():
            for i, want in enumerate(made(SequenceFirst, k)(x)):
                np.testing.assert_allclose(got[f"output{i}"][k], want.numpy(), rtol=1e-5, atol=1e-6)


def test_rows_in_two_dimensions_are_refused(tmp_path):
    files(tmp_path, RowsTwice)
    done = tool("run", "f.pt", "--data", "d.npz", "--predict", "p.npz", "--batch-size", 3, cwd=tmp_path, ok=False)
    assert done.returncode == 3 and "which dimension holds the rows is not known" in done.stderr and "--batch-size 7" in done.stderr
    assert not (tmp_path / "p.npz").exists()
    tool("run", "f.pt", "--data", "d.npz", "--predict", "p.npz", "--batch-size", 7, cwd=tmp_path)
    assert np.load(tmp_path / "p.npz")["output"].shape == (K, 7, 7)


def test_a_fault_turns_these_tests_red(tmp_path, monkeypatch):
    turns_red(monkeypatch, "rows_come_first", test_sequence_first, tmp_path, 4)
