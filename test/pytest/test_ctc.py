"""The loss ctc against torch.nn.functional.ctc_loss, member by member (K=3), with lengths of each row's own."""
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from chorus_testing import assert_close, export, nudged, state, tool

K, N, T, S, C = 3, 4, 8, 3, 4
LRS = [0.05, 0.1, 0.2]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 5), nn.Linear(5, C)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x))).log_softmax(2).transpose(0, 1)


def data(stacked, infinite=False):
    g = np.random.default_rng(1)
    lead = (K, N) if stacked else (N,)
    inputs = g.integers(6, T + 1, lead)
    if infinite:
        inputs[..., 1] = 1  # fewer frames than labels
    lengths = g.integers(1, S + 1, lead)
    if infinite:
        lengths[..., 1] = S
    return {"x": g.normal(size=(*lead, T, 3)).astype(np.float32), "targets": g.integers(1, C, (*lead, S)),
            "input_lengths": inputs, "target_lengths": lengths}


CASES = {
    "mean": ([], {}, False),
    "sum": (["reduction=sum"], {"reduction": "sum"}, False),
    "infinite": (["zero_infinity=true"], {"zero_infinity": True}, True),
    "blank": (["blank=3"], {"blank": 3}, False),
}


def made(k):
    torch.manual_seed(k)
    return Net()


def alone(k, arrays, arguments, steps, noise=False):
    net = nudged(made(k)) if noise else made(k)
    optimizer = torch.optim.SGD(net.parameters(), LRS[k])
    x, y, a, b = (torch.from_numpy(arrays[n]) for n in ("x", "targets", "input_lengths", "target_lengths"))
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.ctc_loss(net(x), y, a, b, **arguments)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return state(net), torch.stack(losses)


def fuse(folder, arguments, arrays):
    np.savez(folder / "d.npz", **arrays)
    for k in range(K):
        export(made(k), folder / f"m{k}.pt", torch.zeros(N, T, 3))
    options = ["--loss", "ctc", "--optimizer", "sgd", "--lr", ",".join(map(str, LRS))]
    for argument in arguments:
        options += ["--loss-arg", argument]
    return tool("fuse", *[f"m{k}.pt" for k in range(K)], "-o", "fused.pt", *options, cwd=folder)


@pytest.mark.parametrize("inputs", ["shared", "stacked"])
@pytest.mark.parametrize("name", CASES)
def test_ctc_is_that_of_pytorch(tmp_path, name, inputs):
    arguments, reference, infinite = CASES[name]
    arrays = data(inputs == "stacked", infinite)
    if name == "blank":
        arrays["targets"] -= 1
    fuse(tmp_path, arguments, arrays)
    tool("run", "fused.pt", "--data", "d.npz", "--inputs", inputs, "--batch-size", N, "--epochs", "10", "--shuffle", "none", "--quiet",
         "-o", "t.pt", cwd=tmp_path)
    tool("split", "t.pt", "-o", "parts", cwd=tmp_path)
    fused = torch.jit.load(tmp_path / "fused.pt").train()
    tensors = [torch.from_numpy(arrays[n]) for n in ("x", "targets", "input_lengths", "target_lengths")]
    got = torch.stack([fused.train_step(*tensors) for _ in range(10)])
    for k in range(K):
        mine = {n: a[k] for n, a in arrays.items()} if inputs == "stacked" else arrays
        (want, losses), (noisy, _) = (alone(k, mine, reference, 10, noise) for noise in (False, True))
        assert_close(state(torch.jit.load(tmp_path / "parts" / f"m{k}.pt")), want, 1e-5, noisy, what=f"member {k}")
        assert_close({n: fused.state_dict()[n][k] for n in want}, want, 1e-5, noisy, what=f"member {k} by PyTorch")
        assert torch.allclose(got[:, k], losses, rtol=1e-4)


def test_what_does_not_fit_is_refused(tmp_path):
    arrays = data(False)
    fuse(tmp_path, [], arrays)

    def refused(**change):
        np.savez(tmp_path / "bad.npz", **{**arrays, **change})
        done = tool("run", "fused.pt", "--data", "bad.npz", "-o", "t.pt", ok=False, cwd=tmp_path)
        assert done.returncode == 1
        return done.stderr

    long = arrays["input_lengths"].copy()
    long[2] = T + 1
    assert f"array 'input_lengths' has the value {T + 1} in row 2, but the lengths lie in 0..{T}" in refused(input_lengths=long)
    assert "array 'target_lengths' has the value 4 in row 0, but the lengths lie in 0..3" in refused(target_lengths=np.full(N, S + 1))
    assert "lengths are integers" in refused(target_lengths=np.ones(N, np.float32))
    assert f"but the values of the target lie in 0..{C - 1}" in refused(targets=np.full((N, S), C))
    np.savez(tmp_path / "bad.npz", x=arrays["x"], targets=arrays["targets"])
    done = tool("run", "fused.pt", "--data", "bad.npz", "-o", "t.pt", ok=False, cwd=tmp_path)
    assert done.returncode == 1 and "there is no array 'input_lengths'" in done.stderr
    done = tool("fuse", "m0.pt", "-o", "f.pt", "--loss", "ctc", "--loss-arg", "blank=7", ok=False, cwd=tmp_path)
    assert done.returncode == 1 and "ctc: blank is 7, which is no class of the output" in done.stderr
