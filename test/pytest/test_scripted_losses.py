"""Losses that the user wrote, as files: through the tools and through the fused file alone, against eager PyTorch (K=3)."""
import zipfile

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from chorus_testing import TwoLayers, assert_close, export, nudged, state, tool

K, N, C = 3, 3, 3
LRS = [0.05, 0.1, 0.2]


class Two(TwoLayers):
    def forward(self, x):
        h = torch.tanh(self.first(x))
        return self.last(h), F.softplus(self.last(h.flip(1)))


class Charbonnier(nn.Module):
    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return ((output - target).pow(2) + 0.1).sqrt().sum(1).mean() + 0.01 * output.pow(2).mean()


class Focal(nn.Module):
    """Class weights as a buffer, exponent as a parameter that nobody trains."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.tensor([0.5, 2.0, 1.0]))
        self.gamma = nn.Parameter(torch.tensor(1.5))

    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        logp = F.log_softmax(output, 1).gather(1, target.unsqueeze(1)).squeeze(1)
        return (-self.weight[target] * (1 - logp.exp()).pow(self.gamma) * logp).mean()


class Entropy(nn.Module):
    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(output, target, label_smoothing=0.1)


class Correlation(nn.Module):
    """Rows do not stand alone: N x N, with N = C = K."""

    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        a = output - output.mean(0)
        b = target - target.mean(0)
        return (a @ a.t() - b @ b.t()).abs().mean() + (a.t() @ b).norm() / output.size(0)


class Normal(nn.Module):
    def forward(self, mean: torch.Tensor, variance: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (0.5 * (variance.log() + (mean - target) ** 2 / variance)).sum()


class ByMode(nn.Module):
    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if self.training:
            return F.smooth_l1_loss(output, target)
        return F.mse_loss(output, target)


def numbers(*sizes, seed=3):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


X, Y, LABELS = numbers(N, 4), numbers(N, C, seed=4), torch.tensor([2, 0, 1])
# loss, net, target, --target
CASES = {
    "dense": (Charbonnier, TwoLayers, Y, None),
    "dense, declared": (Charbonnier, TwoLayers, Y, f"f32[N,{C}]"),
    "buffers and class numbers": (Focal, TwoLayers, LABELS, f"i64[N]<{C}"),
    "cross entropy": (Entropy, TwoLayers, LABELS, "i64[N]"),
    "rows together": (Correlation, TwoLayers, Y, None),
    "several outputs": (Normal, Two, Y, None),
    "mode": (ByMode, TwoLayers, Y, None),
}


def made(build, k):
    torch.manual_seed(k)
    return build()


def stacked(t):
    return torch.stack([t.roll(k, 0) for k in range(K)])


def write(folder, loss, build, x, y, target, inputs, how="script"):
    loss = loss()
    outputs = made(build, 0)(x)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    saved = torch.jit.script(loss) if how == "script" else torch.jit.trace(loss, (*outputs, y))
    saved.save(str(folder / "loss.pt"))
    own = inputs == "stacked"
    np.savez(folder / "d.npz", x=(stacked(x) if own else x).numpy(), y=(stacked(y) if own else y).numpy())
    for k in range(K):
        export(made(build, k), folder / f"m{k}.pt", x)
    options = ["--loss", "loss.pt", "--optimizer", "sgd", "--lr", ",".join(map(str, LRS))]
    return loss, options + (["--target", target] if target else [])


def gradient_steps(k, net, x, y, loss, steps, noise=False):
    if noise:
        nudged(net)
    optimizer = torch.optim.SGD(net.parameters(), LRS[k])
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        out = net(x)
        value = loss(*(out if isinstance(out, tuple) else (out,)), y)
        value.backward()
        optimizer.step()
        losses.append(value.detach())
    return state(net), torch.stack(losses)


def wanted(k, build, loss, inputs, x, y, steps=10):
    x, y = (x.roll(k, 0), y.roll(k, 0)) if inputs == "stacked" else (x, y)
    return [gradient_steps(k, made(build, k), x, y, loss, steps, noise) for noise in (False, True)]


@pytest.mark.parametrize("inputs", ["shared", "stacked"])
@pytest.mark.parametrize("how", ["script", "trace"])
@pytest.mark.parametrize("name", CASES)
def test_a_loss_file_trains_like_pytorch(tmp_path, name, how, inputs):
    loss, build, y, target = CASES[name]
    if how == "trace" and name == "mode":
        pytest.skip("a trace has one mode")
    loss, options = write(tmp_path, loss, build, X, y, target if how == "script" else None, inputs, how)
    names = [f"m{k}.pt" for k in range(K)]
    fuse, run = (options, []) if len(name) % 2 else ([], options)
    tool("fuse", *names, "-o", "fused.pt", *fuse, cwd=tmp_path)
    data = ["--data", "d.npz", "--inputs", inputs, "--batch-size", N, "--epochs", "10", "--shuffle", "none", "--quiet"]
    tool("run", "fused.pt", *data, *run, "-o", "t.pt", cwd=tmp_path)
    tool("split", "t.pt", "-o", "parts", cwd=tmp_path)
    for k in range(K):
        (want, _), (noisy, _) = wanted(k, build, loss, inputs, X, y)
        assert_close(state(torch.jit.load(tmp_path / "parts" / names[k])), want, 1e-5, noisy, what=f"member {k}")


@pytest.mark.parametrize("name", CASES)
def test_the_fused_file_alone_has_the_loss(tmp_path, name):
    loss, build, y, target = CASES[name]
    loss, options = write(tmp_path, loss, build, X, y, target, "stacked")
    tool("fuse", *[f"m{k}.pt" for k in range(K)], "-o", "fused.pt", *options, cwd=tmp_path)
    fused = torch.jit.load(tmp_path / "fused.pt")
    fused.eval()
    loss.eval()
    value = fused.loss(stacked(X), stacked(y))
    for k in range(K):
        out = made(build, k)(X.roll(k, 0))
        want = loss(*(out if isinstance(out, tuple) else (out,)), y.roll(k, 0))
        assert torch.allclose(value[k], want, rtol=1e-5), f"member {k} in eval mode"
    fused.train()
    loss.train()
    got = torch.stack([fused.train_step(stacked(X), stacked(y)) for _ in range(5)])
    for k in range(K):
        (want, losses), (noisy, _) = wanted(k, build, loss, "stacked", X, y, 5)
        assert torch.allclose(got[:, k], losses, rtol=1e-4), f"losses of member {k}"
        assert_close({n: fused.state_dict()[n][k] for n in want}, want, 1e-5, noisy, what=f"member {k}")
    with pytest.raises(torch.jit.Error, match="the loss: the target"):
        fused.train_step(X, y.repeat(1, *[2] * (y.dim() - 1)) if y.dim() > 1 else Y)


def test_a_fault_turns_this_red(tmp_path, monkeypatch):
    monkeypatch.setenv("CHORUS_FAULT", "loss_target_of_member_zero")
    with pytest.raises(AssertionError):
        test_a_loss_file_trains_like_pytorch(tmp_path, "dense", "script", "stacked")


def test_fused_equals_alone(tmp_path):
    _, options = write(tmp_path, Focal, TwoLayers, X, LABELS, "i64[N]", "shared")
    data = ["--data", "d.npz", "--batch-size", 2, "--epochs", "4", "--quiet", "--loss", "loss.pt", "--target", "i64[N]"]
    tool("fuse", "m0.pt", "m1.pt", "m2.pt", "-o", "fused.pt", *options, cwd=tmp_path)
    tool("run", "fused.pt", "--data", "d.npz", "--batch-size", 2, "--epochs", "4", "--quiet", "-o", "t.pt", cwd=tmp_path)
    tool("split", "t.pt", "-o", "parts", cwd=tmp_path)
    for k in range(K):
        tool("run", f"m{k}.pt", *data, "--optimizer", "sgd", "--lr", LRS[k], "-o", f"s{k}.pt", cwd=tmp_path)
        got, want = (state(torch.jit.load(tmp_path / p)) for p in (f"parts/m{k}.pt", f"s{k}.pt"))
        assert_close(got, want, 1e-6, what=f"member {k}")


class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        self.seen.add_(1)
        return (output - target).pow(2).mean() * self.seen.sum()


class Dropping(nn.Module):
    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.dropout(output - target, 0.5).abs().mean()


class Unreduced(nn.Module):
    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (output - target).pow(2)


class NoTarget(nn.Module):
    def forward(self, output: torch.Tensor) -> torch.Tensor:
        return output.pow(2).mean()




@pytest.mark.parametrize("loss,code,message", [
    (Stateful, 1, "forward of the loss changes its 'seen'"),
    (Dropping, 3, "the loss draws random numbers: aten::dropout"),
    (Unreduced, 1, "the loss returns a tensor of rank 2, but a loss is one floating number"),
    (NoTarget, 1, "forward of the loss takes 1 arguments, but the model has 1 output and a target"),
    (Normal, 1, "forward of the loss takes 3 arguments, but the model has 1 output and a target"),
])
def test_losses_that_cannot_be_are_refused(tmp_path, loss, code, message):
    torch.jit.script(loss()).save(str(tmp_path / "loss.pt"))
    export(TwoLayers(), tmp_path / "m.pt", X)
    done = tool("fuse", "m.pt", "-o", "f.pt", "--loss", "loss.pt", ok=False, cwd=tmp_path)
    assert done.returncode == code and message in done.stderr and "loss.pt" in done.stderr, done.stderr
    assert not (tmp_path / "f.pt").exists()


def test_a_target_of_another_form_is_refused_with_the_option(tmp_path):
    write(tmp_path, Charbonnier, TwoLayers, X, LABELS, None, "shared")
    done = tool("run", "m0.pt", "--data", "d.npz", "--loss", "loss.pt", "--optimizer", "sgd", "--lr", "0.1", "-o", "t.pt", ok=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "the target of the loss is f32[N,3]" in done.stderr and "--target" in done.stderr
    done = tool("fuse", "m0.pt", "-o", "f.pt", "--loss", "mse", "--target", "f32[N]", ok=False, cwd=tmp_path)
    assert done.returncode == 1 and "the target of 'mse' has rank 2 here" in done.stderr


@pytest.mark.parametrize("content", ["text", "pickle", "operator"])
def test_hostile_losses_are_refused_by_name(tmp_path, content):
    export(TwoLayers(), tmp_path / "m.pt", X)
    path = tmp_path / "loss.pt"
    if content == "text":
        path.write_text("import os\n")
    elif content == "pickle":
        torch.save(TwoLayers(), path)
    else:
        torch.jit.script(Charbonnier()).save(str(tmp_path / "good.pt"))
        with zipfile.ZipFile(tmp_path / "good.pt") as good, zipfile.ZipFile(path, "w") as bad:
            for entry in good.infolist():
                text = good.read(entry)
                if entry.filename.endswith(".py"):
                    text = text.replace(b"torch.sqrt(", b"ops.aten.from_file(")
                    assert b"from_file" in text
                bad.writestr(entry, text)
    done = tool("fuse", "m.pt", "-o", "f.pt", "--loss", "loss.pt", ok=False, cwd=tmp_path)
    assert done.returncode == 1 and "loss.pt" in done.stderr
    if content == "operator":
        assert "from_file" in done.stderr


def test_another_loss_than_the_files_is_a_usage_error(tmp_path):
    _, options = write(tmp_path, Charbonnier, TwoLayers, X, Y, None, "shared")
    tool("fuse", "m0.pt", "m1.pt", "m2.pt", "-o", "fused.pt", *options, cwd=tmp_path)
    torch.jit.script(Correlation()).save(str(tmp_path / "other.pt"))
    done = tool("run", "fused.pt", "--data", "d.npz", "--loss", "other.pt", "-o", "t.pt", ok=False, cwd=tmp_path)
    assert done.returncode == 2 and "another loss" in done.stderr
    tool("run", "fused.pt", "--data", "d.npz", "--loss", "loss.pt", "-o", "t.pt", "--quiet", "--epochs", "1", cwd=tmp_path)
    done = tool("fuse", "m0.pt", "-o", "f.pt", "--loss", "loss.pt", "--loss-arg", "reduction=sum", ok=False, cwd=tmp_path)
    assert done.returncode == 2
