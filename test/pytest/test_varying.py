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
    "clamp_min": (of(lambda x, s: x.clamp(min=s)), [0.1, 0.2, -0.4]),
    "sub": (of(lambda x, s: torch.tanh(x - s)), [0.3, 1.0, -2.0]),
    "sub_alpha": (of(lambda x, s: torch.sub(x, torch.tanh(x), alpha=s)), [0.3, 1.0, 2]),
    "remainder": (of(lambda x, s: torch.remainder(x, s) * x), [0.3, 1.0, 2.0]),
    "fmod": (of(lambda x, s: torch.fmod(x, s) * x), [0.3, 1.0, 2.0]),
    "addcdiv": (of(lambda x, s: torch.addcdiv(x, x, x.abs() + 1, value=s)), [0.1, 0.7, 0.4]),
    "addmm": (of(lambda x, s: torch.addmm(x[0, 0], x[0, 1], x[0, 2], beta=s, alpha=2 - s) + x), [0.1, 0.7, 1.0]),
    "baddbmm": (of(lambda x, s: torch.baddbmm(x[0], x[1], x[2], beta=s, alpha=2 - s) + x), [0.1, 0.7, 1.0]),
    "addbmm": (of(lambda x, s: torch.addbmm(x[0, 0], x[1], x[2], beta=s, alpha=2 - s) + x), [0.1, 0.7, 1.0]),
    "addmv": (of(lambda x, s: torch.addmv(x[0, 0, 0], x[0, 1], x[0, 2, 0], beta=s, alpha=2 - s) + x), [0.1, 0.7, 1.0]),
    "addr": (of(lambda x, s: torch.addr(x[0, 0], x[0, 1, 0], x[0, 2, 0], beta=s, alpha=2 - s) + x), [0.1, 0.7, 1.0]),
    "index_add": (of(lambda x, s: x.index_add(2, torch.tensor([1, 0]), torch.tanh(x[:, :, :2]), alpha=s)), [0.1, 0.7, 2.0]),
    "index_fill": (of(lambda x, s: x.index_fill(2, torch.tensor([1, 0]), s)), [0.1, 0.7, 2.0]),
    "scatter": (of(lambda x, s: x.scatter(2, torch.zeros(N, C, 1, 6, dtype=torch.long), s)), [0.1, 0.7, 2.0]),
    "full_like": (of(lambda x, s: x * torch.full_like(x, s)), [0.1, 0.7, -0.4]),
    "new_full": (of(lambda x, s: x * x.new_full((6,), s)), [0.1, 0.7, -0.4]),
    "linspace": (of(lambda x, s: x * torch.linspace(0, s, 6)), [1.0, 2.0, 0.5]),
    "where_other": (of(lambda x, s: torch.where(x > 0.1, x, s)), [0.1, 0.7, -0.4]),
    "where_self": (of(lambda x, s: torch.where(x > 0.1, s, x)), [0.1, 0.7, -0.4]),
    "where_both": (of(lambda x, s: x * torch.where(x > 0.1, s, 2 * s)), [0.1, 0.7, -0.4]),
    "nan_to_num": (of(lambda x, s: torch.nan_to_num(torch.where(x > 0, x, float("nan")), nan=s) + torch.nan_to_num(
        torch.where(x > 0.2, x, float("inf")), posinf=-s) + x), [0.1, 0.7, -0.4]),
    "nan_to_num_neginf": (of(lambda x, s: torch.nan_to_num(torch.where(x > 0, x, -float("inf")), neginf=s) + x), [0.1, 0.7, -0.4]),
    "logit": (of(lambda x, s: torch.logit(torch.sigmoid(3 * x), s)), [0.01, 0.2, 0.4]),
    "xlogy": (of(lambda x, s: torch.xlogy(s, x.abs() + 0.5)), [0.1, 0.7, 2.0]),
    "float_power": (of(lambda x, s: torch.float_power(x.abs() + 0.1, s).float()), [1.5, 2.0, 3.0]),
    "copysign": (of(lambda x, s: x + torch.copysign(x, s)), [1.5, -2.0, 3.0]),
    "cosine_similarity": (of(lambda x, s: x + F.cosine_similarity(x, torch.tanh(2 * x), 1, s).unsqueeze(1)), [1e-8, 0.5, 2.0]),
    "normalize_eps": (of(lambda x, s: F.normalize(x, dim=1, eps=s)), [1e-12, 0.5, 2.0]),
    "normalize_p": (of(lambda x, s: F.normalize(x, p=s, dim=1)), [2.0, 1.0, 3.0]),
    "vector_norm": (of(lambda x, s: x * torch.linalg.vector_norm(x, s, 1, True)), [2.0, 1.0, 3.0]),
    "pairwise_distance": (of(lambda x, s: x + F.pairwise_distance(x, torch.tanh(2 * x), 2.0, s).unsqueeze(-1)), [1e-6, 0.5, 2.0]),
    "cdist": (of(lambda x, s: x + torch.cdist(x, torch.tanh(2 * x), s)), [1.0, 1.5, 3.0]),
    "quantile": (of(lambda x, s: x * torch.quantile(x, s, dim=1, keepdim=True)), [0.1, 0.5, 0.9]),
    "std_correction": (of(lambda x, s: x * torch.std(x, 1, correction=s, keepdim=True)), [0, 1, 2]),
    "var_correction": (of(lambda x, s: x * torch.var(x, 1, correction=s, keepdim=True)), [0, 1, 2]),
    "bucketize": (of(lambda x, s: x * torch.isclose(x, torch.zeros_like(x), atol=s)), [0.1, 0.2, 0.4]),
    "label_smoothing": (of(lambda x, s: x * F.cross_entropy(x, x.argmax(1), label_smoothing=s)), [0.0, 0.1, 0.4]),
    "smooth_l1": (of(lambda x, s: x * F.smooth_l1_loss(x, torch.tanh(3 * x), beta=s)), [0.01, 0.1, 0.4]),
    "huber": (of(lambda x, s: x * F.huber_loss(x, torch.tanh(3 * x), delta=s)), [0.01, 0.1, 0.4]),
    "hinge": (of(lambda x, s: x * F.margin_ranking_loss(x, torch.tanh(3 * x), torch.ones_like(x), margin=s)), [0.01, 0.1, 0.4]),
    "triplet": (of(lambda x, s: x * F.triplet_margin_loss(x, torch.tanh(3 * x), x.flip(1), margin=s)), [0.1, 0.5, 1.0]),
    "local_response_norm": (of(lambda x, s: F.local_response_norm(x, 2, alpha=s, beta=s, k=1 + s)), [0.1, 0.5, 0.9]),
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


# Trained in a run, where draws are a function of (seed, step, node).
DRAWS = {
    "rrelu": (of(lambda x, s: F.rrelu(x, s, 2 * s, training=True)), [0.1, 0.3, 0.5]),
    "bernoulli": (of(lambda x, s: x * torch.bernoulli(torch.zeros_like(x), s)), [0.0, 0.5, 1.0]),
    "uniform": (of(lambda x, s: x * torch.zeros_like(x).uniform_(s, 2 * s)), [0.1, 0.3, 0.5]),
    "normal": (of(lambda x, s: x + torch.zeros_like(x).normal_(0.0, s)), [0.1, 0.3, 0.5]),
    "noise": (of(lambda x, s: x + s * torch.randn_like(x)), [0.1, 0.3, 0.5]),
    "exponential": (of(lambda x, s: x * torch.zeros_like(x).exponential_(s)), [0.5, 1.0, 2.0]),
}


def fused_and_alone(tmp_path, build, values):
    """Per member: the state before training, the split file of the fused run, the state after training alone."""
    fuse(tmp_path, build, values)
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
        yield before, torch.jit.load(str(tmp_path / "out" / f"m{k}.pt")), alone


@pytest.mark.parametrize("name", DRAWS)
def test_each_member_draws_by_its_own_numbers(tmp_path, name):
    for k, (before, split, alone) in enumerate(fused_and_alone(tmp_path, *DRAWS[name])):
        assert_close(state(split), alone, 1e-5, moved_from=before, what=f"member {k}")


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
    for k, (before, split, alone) in enumerate(fused_and_alone(tmp_path, norm(DROPOUTS[kind]), RATES)):
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


class Tables(Block):
    """Two tables of one shape: an export keeps one copy where they are equal."""

    def __init__(self, values):
        super().__init__(values)
        self.a, self.b = (torch.linspace(-1, 1, 36).view(6, 6) * v for v in values[:2])
        self.c = torch.linspace(-1, 1, 36).view(6, 6)

    def op(self, x):
        x = torch.tanh(x * self.a + self.c) * self.b
        return x + self.c


@pytest.mark.parametrize("values", [[(1.0, 0.5), (0.7, 0.7), (0.2, 0.3)], [(0.7, 0.7), (2.0, 0.5), (0.7, 0.7)],
                                    [(1.0, 2.0), (2.0, 2.0), (1.0, 1.0)]])
def test_tables_that_are_equal_by_chance_in_one_member(tmp_path, values):
    compare(tmp_path, Tables, values)
    done = tool("fuse", *[tmp_path / f"m{k}.pt" for k in range(K)], "--check", tmp_path / "fused.pt")
    assert "the certificate holds" in done.stdout
    tables = [list(t.shape) for name, t in torch.jit.load(str(tmp_path / "fused.pt")).state_dict().items() if "constant_" in name]
    assert sorted(tables, key=len) == [[6, 6], [K, 6, 6], [K, 6, 6]]  # c, which is read twice, is one
    tool("split", tmp_path / "fused.pt", "-o", tmp_path / "again")
    tool("fuse", *[tmp_path / "again" / f"m{k}.pt" for k in range(K)], "-o", tmp_path / "g.pt", "--input", "f32[N,3,6,6]")


def test_tables_used_twice_where_others_have_two_are_one_group(tmp_path):
    for k, values in enumerate([(1.0, 0.5), (0.7, 0.7), (0.2, 0.3)]):
        export(Tables(values), tmp_path / f"m{k}.pt", example())
    odd = nn.Sequential(Tables((1.0, 1.0)), nn.ReLU())
    export(odd, tmp_path / "m3.pt", example())
    done = tool("fuse", *[tmp_path / f"m{k}.pt" for k in range(4)], "-o", tmp_path / "f.pt", "--group")
    assert "group 0: m0, m1, m2" in done.stdout and "group 1: m3" in done.stdout
    members = [tmp_path / f"m{k}.pt" for k in range(3)]
    assert "the certificate holds" in tool("fuse", *members, "--check", tmp_path / "f.0.pt").stdout
    x = example()
    fused = torch.jit.load(str(tmp_path / "f.0.pt"))
    for k in range(3):
        torch.testing.assert_close(fused(x)[k], torch.jit.load(str(members[k]))(x))


@pytest.mark.parametrize("momenta", [[None, 0.1, 0.5], [0.1, None, None], [0.3, 0.3, None]])
@pytest.mark.parametrize("affine", [True, False])
def test_a_batch_norm_without_momentum_beside_numbers(tmp_path, momenta, affine):
    """None is the mean over all batches so far; only a script keeps it."""
    def build(momentum):
        return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, momentum=momentum, affine=affine), nn.Tanh(),
                             nn.BatchNorm1d(4, momentum=0.2), nn.Linear(4, 4))

    g = torch.Generator().manual_seed(3)
    steps = [(torch.randn(4, 4, generator=g) + 1, torch.randint(0, 4, (4,), generator=g)) for _ in range(STEPS)]
    nets = []
    for k, momentum in enumerate(momenta):
        torch.manual_seed(100 + k)
        nets.append(build(momentum))
        export(nets[k], tmp_path / f"m{k}.pt", steps[0][0], kind="script")
    members = [tmp_path / f"m{k}.pt" for k in range(3)]
    how = ["--input", "f32[N,4]"]
    refused = tool("fuse", *members, "-o", tmp_path / "f.pt", *how, ok=False)
    assert refused.returncode == 1 and "--mixed-momentum" in refused.stderr
    how.append("--mixed-momentum")
    tool("fuse", *members, "-o", tmp_path / "f.pt", "--loss", "cross_entropy", "--optimizer", "sgd", "--lr", LR, *how)
    assert "the certificate holds" in tool("fuse", *members, "--check", tmp_path / "f.pt", *how).stdout
    data = save_npz(tmp_path / "d.npz", torch.cat([x for x, _ in steps]), torch.cat([y for _, y in steps]))
    tool("run", tmp_path / "f.pt", "--data", data, "--epochs", 1, "--batch-size", 4, "--shuffle", "none", "-o", tmp_path / "t.pt")
    tool("split", tmp_path / "t.pt", "-o", tmp_path / "out")
    for k, net in enumerate(nets):
        before = state(net)
        train_eagerly(net, steps, nn.CrossEntropyLoss(), lambda p: torch.optim.SGD(p, lr=LR))
        split = torch.jit.load(str(tmp_path / "out" / f"m{k}.pt"))
        assert_close(state(split), state(net), 1e-5, moved_from=before, what=f"member {k}")
        for mode in (True, False):
            split.train(mode), net.train(mode)
            torch.testing.assert_close(split(steps[0][0]), net(steps[0][0]), rtol=1e-4, atol=1e-5)
    tool("fuse", *[tmp_path / "out" / f"m{k}.pt" for k in (0, 2)], "-o", tmp_path / "again.pt", *how)
