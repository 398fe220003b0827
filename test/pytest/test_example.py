"""`chorus-fuse --example FILE`: shapes and dtypes of the inputs, and the batch of the verification, from data."""
# ctest: quick
import numpy as np
import pytest
import torch
from torch import nn

from chorus_testing import tool


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.out = nn.Embedding(7, 3), nn.Linear(6, 4)

    def forward(self, words, x):
        return self.out(torch.cat([self.table(words).mean(1), x], 1))


def save(net, folder, members=2, double=False):
    for k in range(members):
        torch.manual_seed(k)
        made = net()
        torch.jit.script(made.double() if double else made).save(folder / f"m{k}.pt")
    return [f"m{k}.pt" for k in range(members)]


def test_scripted_members_take_their_shapes_from_the_data(tmp_path):
    names = save(TwoInputs, tmp_path)
    random = np.random.RandomState(0)
    np.savez(tmp_path / "d.npz", words=random.randint(0, 7, (9, 5)), x=random.randn(9, 3), label=random.randint(0, 4, 9))
    said = tool("fuse", *names, "-o", "f.pt", "--example", "d.npz", "--keys", "words,x,label", "--loss", "cross_entropy", "--optimizer", "sgd",
                "--lr", "0.1", cwd=tmp_path).stdout
    assert "verified: outputs, gradients, buffers and updates agree" in said
    # Floating data are cast to the members' dtype.
    fused = torch.jit.load(tmp_path / "f.pt")
    assert fused(torch.zeros(2, 5, dtype=torch.long), torch.zeros(2, 3)).dtype == torch.float32


def test_members_in_double_get_double(tmp_path):
    names = save(lambda: nn.Linear(3, 2), tmp_path, double=True)
    np.save(tmp_path / "x.npy", np.ones((4, 3), "f4"))
    np.save(tmp_path / "y.npy", np.ones((4, 2), "f4"))
    said = tool("fuse", *names, "-o", "f.pt", "--example", "x.npy,y.npy", "--loss", "mse", cwd=tmp_path).stdout
    assert "verified" in said


def test_the_verification_runs_the_data(tmp_path):
    # Twice the data would be outside of the table: drawn numbers could not know that.
    class Doubled(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(9, 3)

        def forward(self, x):
            return self.table(x * 2)

    names = save(Doubled, tmp_path)
    np.savez(tmp_path / "good.npz", x=np.array([[4], [4]]))
    np.savez(tmp_path / "bad.npz", x=np.array([[5], [5]]))
    assert "verified" in tool("fuse", *names, "-o", "f.pt", "--example", "good.npz", cwd=tmp_path).stdout
    failed = tool("fuse", *names, "-o", "g.pt", "--example", "bad.npz", cwd=tmp_path, ok=False)
    assert failed.returncode == 1 and not (tmp_path / "g.pt").exists()


@pytest.mark.parametrize("options, code, text", [
    (["--example", "d.npz", "--keys", "z"], 1, "d.npz: error: there is no array 'z'; the file has 'x', 'y'"),
    (["--example", "d.npz", "--input", "f32[N,3]"], 2, "--example and --input both give the shapes of the inputs"),
    (["--keys", "x"], 2, "--keys goes with --example"),
    (["--example", "d.npz", "--keys", "x,y"], 1, "the model takes 1 input, and --example gives 2"),
    (["--example", "missing.npz"], 1, "missing.npz"),
])
def test_refusals(tmp_path, options, code, text):
    names = save(lambda: nn.Linear(3, 2), tmp_path)
    np.savez(tmp_path / "d.npz", x=np.ones((4, 3)), y=np.ones((4, 2)))
    refused = tool("fuse", *names, "-o", "f.pt", *options, cwd=tmp_path, ok=False)
    assert refused.returncode == code and text in refused.stderr, refused.stderr
    assert not (tmp_path / "f.pt").exists()
