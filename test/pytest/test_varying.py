"""Members that differ in a number or a constant tensor: each trains with its own, and gets it back by splitting."""
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from chorus_testing import assert_close, export, save_npz, spec, state, tool, train_eagerly

N = C = K = 3
STEPS, LR = 4, 0.1


class Block(nn.Module):
    """y = head(op(conv x)): `op` gets the number under test."""

    def __init__(self, value, bias=True):
        super().__init__()
        self.conv = nn.Conv2d(C, C, 3, padding=1, bias=bias)
        self.head = nn.Linear(C, C)
        self.value = value

    def op(self, x):
        return x

    def forward(self, x):
        return self.head(self.op(self.conv(x)).mean((2, 3)))


def of(function):
    return lambda value: Function(function, value)


class Function(Block):
    def __init__(self, function, value):
        super().__init__(value)
        self.function = function

    def op(self, x):
        return self.function(x, self.value)


class Norm(Block):
    def __init__(self, norm, value):
        super().__init__(value, bias=False)  # it would have no gradient but rounding
        self.norm = norm

    def op(self, x):
        return torch.relu(self.norm(x))  # whose mean over the image is not 0 whatever eps is


def norm(build):
    return lambda value: Norm(build(value), value)


class Mask(Block):
    def __init__(self, value):
        super().__init__(value)
        self.table = torch.linspace(-1, 1, 36).view(6, 6) * value

    def op(self, x):
        return x * self.table


class Attention(Block):
    def op(self, x):
        q = x.flatten(2).transpose(1, 2).unsqueeze(1)
        return F.scaled_dot_product_attention(q, q, q, scale=self.value).squeeze(1).transpose(1, 2).unflatten(2, (6, 6))


def rms(value):
    return nn.Sequential(nn.RMSNorm([6, 6], eps=value))


CASES = {
    "leaky_relu": (of(lambda x, s: F.leaky_relu(x, s)), [0.01, 0.2, 0.5]),
    "elu": (of(lambda x, s: F.elu(x, s)), [1.0, 0.3, 2.0]),
    "celu": (of(lambda x, s: F.celu(x, s)), [1.0, 0.3, 2.0]),
    "softplus_beta": (of(lambda x, s: F.softplus(x, s)), [1.0, 3.0, 0.5]),
    "softplus_threshold": (of(lambda x, s: F.softplus(x, 2.0, s)), [20.0, 0.5, 1.0]),
    "hardtanh": (of(lambda x, s: F.hardtanh(x, -s, 0.4)), [0.1, 0.2, 0.4]),
    "relu6": (of(lambda x, s: F.hardtanh(F.relu(x), 0.0, s)), [0.2, 0.6, 6.0]),
    "clamp": (of(lambda x, s: x.clamp(-s, 2 * s)), [0.1, 0.2, 0.4]),
    "clamp_max": (of(lambda x, s: x.clamp(max=s)), [0.1, 0.2, 0.4]),
    "threshold": (of(lambda x, s: F.threshold(x, s, -s)), [0.1, 0.2, -0.1]),
    "hardshrink": (of(lambda x, s: F.hardshrink(x, s)), [0.1, 0.2, 0.4]),
    "softshrink": (of(lambda x, s: F.softshrink(x, s)), [0.1, 0.2, 0.4]),
    "mul": (of(lambda x, s: x * s), [0.3, 1.0, -2.0]),
    "mul_int_and_float": (of(lambda x, s: x * s), [2, 0.5, 3]),
    "div": (of(lambda x, s: x / s), [0.3, 1.0, -2.0]),
    "div_trunc": (of(lambda x, s: x * torch.div(x, s, rounding_mode="trunc")), [0.3, 1.0, 0.5]),
    "div_no_rounding": (of(lambda x, s: torch.div(x, s, rounding_mode=None)), [0.3, 1.0, -2.0]),
    "temperature": (of(lambda x, s: torch.softmax(x / s, 1)), [0.3, 1.0, 2.0]),
    "add": (of(lambda x, s: torch.tanh(x + s)), [0.3, 1.0, -2.0]),
    "rsub": (of(lambda x, s: torch.tanh(s - x)), [0.3, 1.0, -2.0]),
    "residual": (of(lambda x, s: torch.add(x, torch.tanh(x), alpha=s)), [1, 0.5, 2]),
    "pow": (of(lambda x, s: (x.abs() + 0.1) ** s), [1.5, 2.0, 3.0]),
    "pow_base": (of(lambda x, s: s ** x), [1.5, 2.0, 3.0]),
    "lerp": (of(lambda x, s: torch.lerp(x, torch.tanh(x), s)), [0.1, 0.7, 0.4]),
    "compare": (of(lambda x, s: torch.where(x > s, x, 2 * x)), [0.1, -0.2, 0.0]),
    "addcmul": (of(lambda x, s: torch.addcmul(x, x, x, value=s)), [0.1, 0.7, 0.4]),
    "masked_fill": (of(lambda x, s: x.masked_fill(x > 0.1, s)), [0.1, 0.7, 0.4]),
    "pad": (of(lambda x, s: F.pad(x, (1, 1), value=s)), [0.1, 0.7, -0.4]),
    "full": (of(lambda x, s: x * torch.full((6,), s)), [0.1, 0.7, -0.4]),
    "batch_norm_eps": (norm(lambda s: nn.BatchNorm2d(C, eps=s)), [1e-5, 1e-2, 0.5]),
    "batch_norm_momentum": (norm(lambda s: nn.BatchNorm2d(C, momentum=s)), [0.1, 0.5, 0.9]),
    "batch_norm_plain_eps": (norm(lambda s: nn.BatchNorm2d(C, eps=s, track_running_stats=False)), [1e-5, 1e-2, 0.5]),
    "instance_norm_eps": (norm(lambda s: nn.InstanceNorm2d(C, eps=s)), [1e-5, 1e-2, 0.5]),
    "instance_norm_momentum": (norm(lambda s: nn.InstanceNorm2d(C, momentum=s, track_running_stats=True)), [0.1, 0.5, 0.9]),
    "layer_norm_eps": (norm(lambda s: nn.LayerNorm([6, 6], eps=s)), [1e-5, 1e-2, 0.0]),
    "group_norm_eps": (norm(lambda s: nn.GroupNorm(3, C, eps=s)), [1e-5, 1e-2, 0.5]),
    "rms_norm_eps": (norm(rms), [1e-5, 1e-2, 0.5]),
    "constant_tensor": (Mask, [1.0, 0.5, -2.0]),
    "attention_scale": (Attention, [1.0, 0.5, 2.0]),
}


def example():
    return torch.randn(N, C, 6, 6, generator=torch.Generator().manual_seed(5))


def batches():
    g = torch.Generator().manual_seed(3)
    return [(torch.randn(N, C, 6, 6, generator=g), torch.randint(0, C, (N,), generator=g)) for _ in range(STEPS)]


def fuse(folder, build, values, **tool_arguments):
    for k, value in enumerate(values):
        torch.manual_seed(100 + k)
        export(build(value), folder / f"m{k}.pt", example())
    return tool("fuse", *[folder / f"m{k}.pt" for k in range(len(values))], "-o", folder / "fused.pt", "--loss", "cross_entropy",
                "--optimizer", "sgd", "--lr", LR, "--momentum", 0.9, **tool_arguments)


def train_alone(build, k, value):
    torch.manual_seed(100 + k)
    model = build(value)
    before = state(model)
    train_eagerly(model, batches(), nn.CrossEntropyLoss(), lambda p: torch.optim.SGD(p, lr=LR, momentum=0.9))
    return before, model


def compare(folder, build, values):
    fuse(folder, build, values)
    xs, ys = zip(*batches())
    data = save_npz(folder / "d.npz", torch.cat(xs), torch.cat(ys))
    tool("run", folder / "fused.pt", "--data", data, "--epochs", 1, "--batch-size", N, "--shuffle", "none", "-o", folder / "t.pt")
    tool("split", folder / "t.pt", "-o", folder / "out")
    for k, value in enumerate(values):
        before, alone = train_alone(build, k, value)
        split = torch.jit.load(str(folder / "out" / f"m{k}.pt"))
        assert_close(state(split), state(alone), 1e-5, moved_from=before, what=f"member {k}")
        for mode in (True, False):
            split.train(mode), alone.train(mode)
            torch.testing.assert_close(split(example()), alone(example()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_each_member_trains_with_its_own_value(tmp_path, name):
    compare(tmp_path, *CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_member_zeros_value_for_all_is_found(tmp_path, name):
    """The check of chorus-fuse itself turns red under the fault."""
    build, values = CASES[name]
    with pytest.raises(AssertionError, match="differs from member|differs from"):
        fuse(tmp_path, build, values, env={"CHORUS_FAULT": "varying_of_member_zero"})


DROPOUTS = {
    "dropout": lambda p: nn.Dropout(p),
    "dropout2d": lambda p: nn.Dropout2d(p),
    "alpha_dropout": lambda p: nn.AlphaDropout(p),
    "feature_alpha_dropout": lambda p: nn.FeatureAlphaDropout(p),
}
RATES = [0.0, 0.25, 0.75]


@pytest.mark.parametrize("kind", DROPOUTS)
def test_each_member_draws_its_own_masks_with_its_own_p(tmp_path, kind):
    """Trained in a fused run, each member is what it is when it is trained alone."""
    fuse(tmp_path, norm(DROPOUTS[kind]), RATES)
    xs, ys = zip(*batches())
    data = save_npz(tmp_path / "d.npz", torch.cat(xs), torch.cat(ys))
    how = ["--data", data, "--epochs", 2, "--batch-size", N, "--shuffle", "none"]
    tool("run", tmp_path / "fused.pt", *how, "-o", tmp_path / "t.pt")
    tool("split", tmp_path / "t.pt", "-o", tmp_path / "out")
    for k in range(K):
        before = state(torch.jit.load(str(tmp_path / f"m{k}.pt")))
        tool("run", tmp_path / f"m{k}.pt", *how, "--loss", "cross_entropy", "--optimizer", "sgd", "--lr", LR, "--momentum", 0.9,
             "-o", tmp_path / "alone.pt")
        alone = state(torch.jit.load(str(tmp_path / "alone.pt")))
        split = torch.jit.load(str(tmp_path / "out" / f"m{k}.pt"))
        assert_close(state(split), alone, 1e-5, moved_from=before, what=f"member {k}")
        assert f"value={RATES[k]:g}" in str(split.forward_train.graph).replace("0.]", "0]").replace("=0.]", "=0]")


@pytest.mark.parametrize("kind", DROPOUTS)
def test_the_portable_file_drops_with_each_members_p(tmp_path, kind):
    fuse(tmp_path, norm(DROPOUTS[kind]), [0.0, 0.5, 1.0])
    fused = torch.jit.load(str(tmp_path / "fused.pt"))
    x = example()
    torch.manual_seed(0)
    draws = torch.stack([fused(x) for _ in range(200)])
    alone = []
    for k in range(K):
        member = torch.jit.load(str(tmp_path / f"m{k}.pt"))
        torch.manual_seed(0)
        alone.append(torch.stack([member(x) for _ in range(200)]))
    alone = torch.stack(alone, 1)
    assert not torch.isnan(draws).any()
    torch.testing.assert_close(draws[:, 0], alone[:, 0])  # p = 0: nothing is random
    torch.testing.assert_close(draws[:, 2], alone[:, 2])  # p = 1: nor here
    spread = alone[:, 1].std(0).max() / 200**0.5
    assert (draws[:, 1].mean(0) - alone[:, 1].mean(0)).abs().max() < 6 * spread
    assert 0.7 < float(draws[:, 1].std(0).mean() / alone[:, 1].std(0).mean()) < 1.4


def test_numbers_are_data_of_the_file(tmp_path):
    """Changing one changes that member alone; the file also runs on the meta device; splitting and fusing again is exact."""
    build, values = CASES["leaky_relu"]
    fuse(tmp_path, build, values)
    fused = torch.jit.load(str(tmp_path / "fused.pt"))
    assert fused.chorus.varying_0.tolist() == values
    before = fused(example())
    with torch.no_grad():
        fused.chorus.varying_0[1] = 0.9
    after = fused(example())
    assert torch.equal(before[0], after[0]) and torch.equal(before[2], after[2]) and not torch.equal(before[1], after[1])
    meta = torch.jit.load(str(tmp_path / "fused.pt"), map_location="meta")
    assert meta(example().to("meta")).shape == (K, N, C)
    tool("split", tmp_path / "fused.pt", "-o", tmp_path / "out")
    tool("fuse", *[tmp_path / "out" / f"m{k}.pt" for k in (2, 0)], "-o", tmp_path / "again.pt", "--input", "f32[N,3,6,6]")
    again = torch.jit.load(str(tmp_path / "again.pt"))
    assert again.chorus.varying_0.tolist() == [values[2], values[0]]
    torch.testing.assert_close(again(example()), before[[2, 0]])


def test_trace_and_script_of_one_network_fuse(tmp_path):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.LeakyReLU(0.2), nn.Linear(4, 4), nn.Softplus(2.0))
    export(net, tmp_path / "trace.pt", torch.randn(3, 4))
    export(net, tmp_path / "script.pt", torch.randn(3, 4), kind="script")
    tool("fuse", tmp_path / "trace.pt", tmp_path / "script.pt", "-o", tmp_path / "f.pt", "--input", "f32[N,4]")
