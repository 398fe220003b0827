"""Ops that draw: a member trained in a fused run draws what it draws alone, and members draw apart."""
import numpy as np
import pytest
import torch
from chorus_testing import export, seeded, state, tool
from torch import nn
from torch.nn import functional as F
from torchvision.ops import stochastic_depth


class Noise(nn.Module):
    """Two linear layers with `noise` between them."""

    def __init__(self, noise):
        super().__init__()
        self.first, self.noise, self.last = nn.Linear(4, 4), noise, nn.Linear(4, 4)

    def forward(self, x):
        return self.last(self.noise(self.first(x)))


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class StochasticDepth(nn.Module):
    def forward(self, x):
        return x + torch.tanh(x) * x.new_empty(x.shape[0], 1).bernoulli_(0.5).div_(0.5)


class Attention(nn.Module):
    """Four positions of width 1, in heads; `options` of scaled_dot_product_attention."""

    def __init__(self, heads=2, **options):
        super().__init__()
        self.heads, self.options = heads, options

    def forward(self, x):
        q = x.view(x.shape[0], 1, 4, 1).expand(-1, 4, -1, 4) + torch.linspace(0, 1, 16).view(4, 1, 4)
        kv = q[:, : self.heads]
        return F.scaled_dot_product_attention(q, kv, kv + 1, dropout_p=0.4, enable_gqa=True, **self.options).mean((1, 3))


class Deep(nn.Module):
    """`inner` three modules deep: the code of a member is a chain of calls."""

    def __init__(self, inner):
        super().__init__()
        self.chain = nn.Sequential(nn.Sequential(nn.Sequential(inner)))

    def forward(self, x):
        return self.chain(x)


def new(fill, *arguments):
    """[N,1] made by a factory and filled in place, times the input."""
    return Function(lambda x: x + 0.1 * torch.tanh(x) * getattr(x.new_empty(x.shape[0], 1), fill)(*arguments))


def gate(mask):
    return Function(lambda x: x + torch.tanh(x) * mask(x))


class Drawing(nn.Module):
    """What it draws, moved by a bias of zero."""

    def __init__(self, draw):
        super().__init__()
        self.draw, self.bias = draw, nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return self.draw(x) + self.bias


NETWORKS = {
    "dropout": lambda: nn.Dropout(0.4),
    "alpha dropout": lambda: nn.AlphaDropout(0.4),
    "rrelu": lambda: nn.RReLU(),
    "gaussian noise": lambda: Function(lambda x: x + torch.randn_like(x)),
    "uniform noise": lambda: Function(lambda x: x * (0.5 + torch.rand(x.shape))),
    "gumbel softmax": lambda: Function(lambda x: F.gumbel_softmax(x, tau=0.7)),
    "bernoulli gate": lambda: Function(lambda x: x * torch.bernoulli(torch.sigmoid(x))),
    "shuffled features": lambda: Function(lambda x: x + x[:, torch.randperm(4)]),
    "stochastic depth": StochasticDepth,
    "deep dropout": lambda: Deep(nn.Dropout(0.4)),
    "deep stochastic depth": lambda: Deep(StochasticDepth()),
    "stochastic depth by row": lambda: Function(lambda x: x + stochastic_depth(torch.tanh(x), 0.4, "row")),
    "stochastic depth by batch": lambda: Function(lambda x: x + stochastic_depth(torch.tanh(x), 0.4, "batch")),
    "floor of a uniform": lambda: gate(lambda x: (torch.rand(x.shape[0], 1) + 0.6).floor()),
    "floor of a uniform in place": lambda: gate(lambda x: torch.rand((x.shape[0], 1)).add_(0.6).floor_().div_(0.6)),
    "bernoulli of full": lambda: gate(lambda x: torch.bernoulli(torch.full((x.shape[0], 1), 0.6))),
    "bernoulli_ by a tensor": lambda: gate(lambda x: torch.empty_like(x).bernoulli_(torch.sigmoid(x.detach()))),
    "bernoulli_ of zeros_like": lambda: gate(lambda x: torch.zeros_like(x).bernoulli_(0.6)),
    "compared uniform": lambda: gate(lambda x: (torch.rand_like(x) < 0.6).to(x.dtype)),
    "uniform_": lambda: new("uniform_", -1.0, 2.0),
    "normal_": lambda: new("normal_", 0.5, 2.0),
    "exponential_": lambda: new("exponential_", 1.5),
    "random_": lambda: new("random_", 0, 3),
    "log_normal_": lambda: new("log_normal_", 0.1, 0.5),
    "geometric_": lambda: new("geometric_", 0.5),
    "cauchy_": lambda: new("cauchy_", 0.0, 1e-3),
    "poisson": lambda: gate(lambda x: torch.poisson(3 * torch.sigmoid(x).detach())),
    "normal of tensors": lambda: gate(lambda x: torch.normal(torch.tanh(x), 0.1 + torch.sigmoid(x).detach())),
    "random integers": lambda: Function(lambda x: x + x[:, torch.randint(0, 4, (4,))]),
    "random rows": lambda: Function(lambda x: x + 0.5 * x[torch.randperm(x.shape[0])]),
    "mixup": lambda: Function(lambda x: torch.lerp(x, x[torch.randperm(x.shape[0])], torch.rand(x.shape[0], 1))),
    "multinomial": lambda: Function(lambda x: x + torch.multinomial(torch.sigmoid(x), 4).to(x.dtype)),
    "multinomial with replacement": lambda: Function(lambda x: x + torch.multinomial(torch.sigmoid(x), 4, True).to(x.dtype)),
    "attention dropout": lambda: Attention(4),
    "attention of grouped heads": lambda: Attention(2, scale=0.3),
    "causal attention": lambda: Attention(4, is_causal=True),
    "attention that hides": lambda: Attention(4, attn_mask=torch.tensor([[i % 3 > j % 2 for j in range(4)] for i in range(4)])),
    "biased attention": lambda: Attention(1, attn_mask=torch.linspace(-3, 3, 16).view(4, 4)),
    "recurrent dropout": lambda: Function(lambda x: x),  # its network is made below
}


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.last = nn.GRU(1, 4, num_layers=2, dropout=0.4, batch_first=True), nn.Linear(4, 4)

    def forward(self, x):
        return self.last(self.gru(x.unsqueeze(2))[0][:, -1])


def network(name):
    return Recurrent() if name == "recurrent dropout" else Noise(NETWORKS[name]())


def train(model, data, out, *options):
    tool("run", model, "--data", data, "--epochs", "2", "--batch-size", "4", "--seed", "3", "--quiet", "-o", out, *options)
    return out


@pytest.mark.parametrize("name", NETWORKS)
def test_a_member_draws_alone_what_it_draws_in_a_fused_run(name, tmp_path):
    members, x = [], torch.randn(4, 4)
    for k in range(3):
        # Members 0 and 1 have equal weights: only their seeds tell them apart.
        module = seeded(lambda: network(name), min(k, 1) if k else 1).train()
        members.append(export(module, tmp_path / f"m{k}.pt", x))
    rng = np.random.default_rng(0)
    data = tmp_path / "data.npz"
    np.savez(data, x=rng.normal(size=(12, 4)).astype(np.float32), y=rng.normal(size=(12, 4)).astype(np.float32))
    training = ["--loss", "mse", "--optimizer", "sgd", "--lr", "0.1"]
    fused = tmp_path / "fused.pt"
    done = tool("fuse", *members, "-o", fused, *training)
    assert "per member" in done.stdout and "unchecked" not in done.stderr
    seeds = ["--member-seed", "11,12,13"]
    tool("split", train(fused, data, tmp_path / "trained.pt", *seeds), "-o", tmp_path / "split")
    for k, member in enumerate(members):
        alone = train(member, data, tmp_path / f"alone{k}.pt", *training, "--member-seed", str(11 + k))
        got, want = state(torch.jit.load(tmp_path / "split" / f"m{k}.pt")), state(torch.jit.load(alone))
        assert got.keys() == want.keys()
        for key in want:
            torch.testing.assert_close(got[key], want[key], rtol=1e-5, atol=1e-7, msg=lambda m: f"{name} {key}: {m}")
    apart = [state(torch.jit.load(tmp_path / "split" / f"m{k}.pt"))["last.weight"] for k in (0, 1)]
    assert not torch.allclose(*apart), "members 0 and 1 drew the same numbers"


DRAWS = {
    "uniform_": lambda x: torch.empty_like(x).uniform_(-1, 2),
    "normal_": lambda x: torch.empty_like(x).normal_(0.5, 2),
    "exponential_": lambda x: torch.empty_like(x).exponential_(1.5),
    "log_normal_": lambda x: torch.empty_like(x).log_normal_(0.1, 0.5),
    "geometric_": lambda x: torch.empty_like(x).geometric_(0.3),
    "cauchy_": lambda x: torch.empty_like(x).cauchy_(1, 2),
    "poisson": lambda x: torch.poisson(x + torch.tensor([0.0, 0.7, 6.0, 900.0])),
    "random_": lambda x: torch.empty_like(x).random_(3, 9),
    "randint": lambda x: torch.randint(2, 7, x.shape).to(x.dtype),
    "bernoulli_": lambda x: torch.empty_like(x).bernoulli_(0.3),
    "multinomial": lambda x: torch.multinomial(torch.tensor([0.1, 0.0, 0.5, 0.4]).expand(x.shape), 3).to(x.dtype),
    "multinomial with replacement": lambda x: torch.multinomial(torch.tensor([0.1, 0.0, 0.5, 0.4]).expand(x.shape), 5, True).to(x.dtype),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_have_the_distribution_of_pytorch(name, tmp_path):
    """Kolmogorov and Smirnov's distance of two samples of n; above 1.95 sqrt(2/n) with probability 0.001."""
    rows = 2048
    x = torch.zeros(rows, 4)
    model = export(Drawing(DRAWS[name]), tmp_path / "m.pt", x)
    np.savez(tmp_path / "d.npz", x=x.numpy())
    tool("run", model, "--data", tmp_path / "d.npz", "--keys", "x", "--predict", tmp_path / "p.npz", "--batch-size", rows)
    torch.manual_seed(3)
    for got, want in zip(np.load(tmp_path / "p.npz")["output"].T, DRAWS[name](x).numpy().T):
        values = np.unique(np.concatenate([got, want]))
        below = [np.searchsorted(np.sort(sample), values, side="right") / rows for sample in (got, want)]
        assert np.abs(below[0] - below[1]).max() < 1.95 * (2 / rows) ** 0.5
