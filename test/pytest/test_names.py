"""Whatever members call their tensors, modules and files: fused, trained and split they keep the names, and the numbers."""
# ctest: quick
import numpy as np
import pytest
import torch
from torch import nn

from chorus_testing import state, tool


class Named(nn.Module):
    """A tanh layer per parameter, then a shift per buffer."""

    def __init__(self, parameters, buffers):
        super().__init__()
        for name in parameters:
            self.register_parameter(name, nn.Parameter(torch.randn(3, 3)))
        for name in buffers:
            self.register_buffer(name, torch.randn(3))
        self.order = list(parameters), list(buffers)

    def forward(self, x):
        for name in self.order[0]:
            x = torch.tanh(x @ getattr(self, name))
        for name in self.order[1]:
            x = x + getattr(self, name)
        return x


class Modules(nn.Module):
    def __init__(self, names):
        super().__init__()
        for name in names:
            setattr(self, name, nn.Linear(3, 3))
        self.order = list(names)

    def forward(self, x):
        for name in self.order:
            x = torch.tanh(getattr(self, name)(x))
        return x


NETS = {
    "ours": lambda: Named(["chorus", "loss", "train_step", "lr", "active", "step"], ["shared_names", "member_names", "info"]),
    "helpers": lambda: Named(["chorus_gradients", "chorus_update", "chorus_run", "chorus_loss", "state", "o"], ["values", "updates", "x0", "K"]),
    "state": lambda: Named(["varying_0", "varying_1", "own"], ["exp_avg", "momentum_buffer"]),
    "words": lambda: Named(["aten", "prim", "ops", "torch_", "List", "Tensor"], ["math", "range_", "len_"]),
    "modules": lambda: Modules(["chorus", "loss", "train_step", "active"]),
    "numbers": lambda: Modules(["0", "12", "1a", "_private"]),
}
FILES = ["a b.pt", "m;1.pt", "q'x.pt"]
LR = [0.01, 0.02, 0.03]


@pytest.mark.parametrize("name", NETS)
def test_names_stay(tmp_path, name):
    members = []
    for k, file in enumerate(FILES):
        torch.manual_seed(k)
        members.append(NETS[name]().train())
        torch.jit.trace(members[k], torch.randn(4, 3), check_trace=False).save(str(tmp_path / file))
    random = np.random.RandomState(0)
    x, y = random.randn(12, 3).astype("f4"), random.randn(12, 3).astype("f4")
    np.savez(tmp_path / "d.npz", x=x, y=y)
    tool("fuse", *FILES, "-o", "f.pt", "--loss", "mse", "--optimizer", "adam", "--lr", ",".join(map(str, LR)), cwd=tmp_path)
    assert set(members[0].state_dict()) <= set(torch.jit.load(tmp_path / "f.pt").state_dict())
    tool("run", "f.pt", "--data", "d.npz", "--epochs", "3", "--batch-size", "4", "--shuffle", "none", "-o", "t.pt", "--quiet", cwd=tmp_path)
    tool("split", "t.pt", "-o", "parts", cwd=tmp_path)
    for member, file, lr in zip(members, FILES, LR):
        optimizer = torch.optim.Adam(member.parameters(), lr=lr)
        for i in [0, 4, 8] * 3:
            optimizer.zero_grad()
            nn.functional.mse_loss(member(torch.tensor(x[i:i + 4])), torch.tensor(y[i:i + 4])).backward()
            optimizer.step()
        trained = state(torch.jit.load(str(tmp_path / "parts" / file)))
        assert list(trained) == list(member.state_dict())
        for key, value in member.state_dict().items():
            torch.testing.assert_close(trained[key], value, rtol=1e-5, atol=1e-5, msg=lambda text, key=key: f"{key}: {text}")


def test_a_name_of_ours_that_is_taken_is_said(tmp_path):
    for k in range(2):
        torch.jit.trace(Modules(["loss"]), torch.randn(4, 3), check_trace=False).save(str(tmp_path / f"m{k}.pt"))
    said = tool("fuse", "m0.pt", "m1.pt", "-o", "f.pt", "--loss", "mse", cwd=tmp_path).stderr
    assert said == ("remark: the members have an attribute 'loss' of their own, so what the fused file adds is called 'chorus_loss'\n")
    assert torch.jit.load(tmp_path / "f.pt").chorus_loss(torch.zeros(4, 3), torch.zeros(4, 3)).shape == (2,)
