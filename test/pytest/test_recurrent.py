"""K recurrent networks trained as one equal the networks trained alone: 20 steps, sizes all 3, every option of nn.LSTM, GRU, RNN."""
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chorus_testing import assert_close, export, nudged, save_npz, seeded, spec, state, tool, train_eagerly

K = N = T = C = 3
STEPS = 20
LR = [0.05, 0.1, 0.2]


class Last(nn.Module):
    """Classes from the last output and the last states, so that all results count."""

    def __init__(self, kind, layout="batch_first", **options):
        super().__init__()
        self.time_first, self.lstm = layout == "time_first", kind is nn.LSTM
        self.net = kind(C, C, batch_first=layout == "batch_first", **options)
        width = (options.get("proj_size", 0) or C) * (1 + options.get("bidirectional", False))
        self.head, self.states = nn.Linear(width, C), nn.Linear(options.get("proj_size", 0) or C, C)


class LastLstm(Last):
    def forward(self, x: Tensor):
        y, (h, c) = self.net(x.transpose(0, 1) if self.time_first else x)
        last = y[-1] if self.time_first else y[:, -1]
        return self.head(last) + self.states(h.sum(0)) + c.sum()


class LastGru(Last):
    def forward(self, x: Tensor):
        y, h = self.net(x.transpose(0, 1) if self.time_first else x)
        last = y[-1] if self.time_first else y[:, -1]
        return self.head(last) + self.states(h.sum(0))


class LearnedState(nn.Module):
    """The initial state is a parameter; the first half of the data's features runs unbatched."""

    def __init__(self):
        super().__init__()
        self.net, self.alone, self.head = nn.LSTM(C, C), nn.GRU(C, C), nn.Linear(C, C)
        self.h, self.c = nn.Parameter(torch.zeros(1, 1, C) + 0.1), nn.Parameter(torch.zeros(1, 1, C) - 0.1)

    def forward(self, x: Tensor):
        n = x.size(0)
        y, _ = self.net(x.transpose(0, 1), (self.h.expand(-1, n, -1).contiguous(), self.c.expand(-1, n, -1).contiguous()))
        z, _ = self.alone(y[:, 0])
        return self.head(y[-1]) + z[-1]


class Cells(nn.Module):
    """One cell of each kind, stepped by a Python loop; states given and default."""

    def __init__(self, bias=True):
        super().__init__()
        self.a, self.b = nn.LSTMCell(C, C, bias=bias), nn.GRUCell(C, C, bias=bias)
        self.c, self.d = nn.RNNCell(C, C, bias=bias), nn.RNNCell(C, C, bias=bias, nonlinearity="relu")

    def forward(self, x: Tensor):
        h, c = self.a(x[:, 0])
        u, v, w = self.b(x[:, 0]), self.c(x[:, 0]), self.d(x[:, 0])
        for t in range(1, x.size(1)):
            h, c = self.a(x[:, t], (h, c))
            u, v, w = self.b(h, u), self.c(x[:, t], v), self.d(x[:, t] * 1.0, w)
        return h + u + v + w + c


class SharedWeightsCalledTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.GRU(C, C, batch_first=True)

    def forward(self, x: Tensor):
        y, h = self.net(x)
        return self.net(y, h)[0][:, -1]


def lstm(**options):
    return lambda: LastLstm(nn.LSTM, **options)


def gru(**options):
    return lambda: LastGru(nn.GRU, **options)


def rnn(**options):
    return lambda: LastGru(nn.RNN, **options)


NETWORKS = {
    "lstm": lstm(),
    "lstm_time_first": lstm(layout="time_first"),
    "lstm_deep": lstm(num_layers=2, bidirectional=True),
    "lstm_no_bias": lstm(bias=False, num_layers=2),
    "lstm_proj": lstm(proj_size=2),
    "lstm_proj_deep": lstm(proj_size=2, num_layers=2, bidirectional=True, layout="time_first"),
    "lstm_dropout_0": lstm(num_layers=2, dropout=0.0),
    "gru": gru(),
    "gru_deep": gru(num_layers=3, bidirectional=True, layout="time_first"),
    "gru_no_bias": gru(bias=False, bidirectional=True),
    "rnn": rnn(),
    "rnn_relu": rnn(nonlinearity="relu", num_layers=2),
    "rnn_deep": rnn(num_layers=2, bidirectional=True, bias=False, layout="time_first"),
    "learned_state": LearnedState,
    "cells": Cells,
    "cells_no_bias": lambda: Cells(bias=False),
    "called_twice": SharedWeightsCalledTwice,
}


def data(dtype):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(N * STEPS, T, C, generator=generator, dtype=dtype)
    return x, torch.randint(0, C, (N * STEPS,), generator=generator)


def fuse(folder, build, kind, dtype, x, *options):
    paths = [export(seeded(build, i, dtype), folder / f"m{i}.pt", x[:N], kind) for i in range(K)]
    inputs = ["--input", spec(x)] if kind == "script" else []
    tool("fuse", *paths, "-o", folder / "fused.pt", "--loss", "cross_entropy", "--optimizer", "sgd", *inputs, "--lr",
         ",".join(map(str, LR)), *options)
    return paths


def eager(build, i, dtype, x, y, noise=False):
    module = seeded(build, i, dtype)
    if noise:
        nudged(module)
    train_eagerly(module, zip(x.split(N), y.split(N)), F.cross_entropy, lambda p: torch.optim.SGD(p, lr=LR[i]))
    return module


SCRIPTED = ["lstm", "lstm_proj_deep", "gru_deep", "rnn_relu", "learned_state", "cells", "called_twice"]
CASES = [(name, "trace", torch.float64) for name in NETWORKS] + [(name, "script", torch.float64) for name in SCRIPTED]
CASES += [(name, "trace", torch.float32) for name in ("lstm_deep", "lstm_time_first", "gru_deep", "rnn", "cells")]


@pytest.mark.parametrize("name,kind,dtype", CASES)
def test_twenty_steps_equal_eager(tmp_path, name, kind, dtype):
    build, (x, y) = NETWORKS[name], data(dtype)
    fuse(tmp_path, build, kind, dtype, x)
    tool("run", tmp_path / "fused.pt", "--data", save_npz(tmp_path / "d.npz", x, y), "--epochs", 1, "--batch-size", N,
         "--shuffle", "none", "-o", tmp_path / "trained.pt", "--quiet")
    tool("split", tmp_path / "trained.pt", "-o", tmp_path / "members")
    for i in range(K):
        want = eager(build, i, dtype, x, y)
        member = torch.jit.load(str(tmp_path / "members" / f"m{i}.pt"))
        assert_close(state(member), state(want), 1e-10 if dtype == torch.float64 else 1e-5,
                     state(eager(build, i, dtype, x, y, noise=True)), state(seeded(build, i, dtype)), f"member {i}")
        want.eval()
        with torch.no_grad():
            assert torch.allclose(member.eval()(x[:N]), want(x[:N]), rtol=1e-3, atol=1e-4), f"member {i} in eval mode"


@pytest.mark.parametrize("name", ["lstm_deep", "gru", "rnn_relu"])
def test_the_file_trains_in_plain_pytorch_whatever_the_lengths(tmp_path, name):
    build, (x, y) = NETWORKS[name], data(torch.float64)
    fuse(tmp_path, build, "script", torch.float64, x)
    fused = torch.jit.load(str(tmp_path / "fused.pt")).train()
    for at, (a, b) in enumerate(zip(x.split(N), y.split(N))):
        rows = [N, N - 1][at % 2]
        fused.train_step(a[:rows], b[:rows])
    for i in range(K):
        want = seeded(build, i, torch.float64)
        batches = [(a[: [N, N - 1][at % 2]], b[: [N, N - 1][at % 2]]) for at, (a, b) in enumerate(zip(x.split(N), y.split(N)))]
        train_eagerly(want, batches, F.cross_entropy, lambda p: torch.optim.SGD(p, lr=LR[i]))
        got = {n: fused.state_dict()[n][i] for n in state(want)}
        assert_close(got, state(want), 1e-9, what=f"member {i}")


@pytest.mark.parametrize("kind", ["trace", "script"])
@pytest.mark.parametrize("network", [nn.LSTM, nn.GRU])
def test_dropout_between_layers_is_the_member_s_own(tmp_path, network, kind):
    """Verified against the original code with the same masks; and a member trained alone gets the numbers it gets in company."""
    make = {nn.LSTM: LastLstm, nn.GRU: LastGru}[network]
    build, (x, y) = lambda: make(network, num_layers=3, dropout=0.5), data(torch.float64)
    paths = fuse(tmp_path, build, kind, torch.float64, x, "--verify")
    common = ["--data", save_npz(tmp_path / "d.npz", x, y), "--epochs", 1, "--batch-size", N, "--quiet"]
    tool("run", tmp_path / "fused.pt", *common, "-o", tmp_path / "trained.pt")
    together = torch.jit.load(str(tmp_path / "trained.pt")).state_dict()
    inputs = ["--input", spec(x)] if kind == "script" else []
    for i in (0, 2):
        tool("run", paths[i], *common, *inputs, "--loss", "cross_entropy", "--optimizer", "sgd", "--lr", LR[i], "-o",
             tmp_path / f"alone{i}.pt")
        alone = state(torch.jit.load(str(tmp_path / f"alone{i}.pt")))
        assert_close({n: together[n][i] for n in alone}, alone, 1e-10, what=f"member {i}")
