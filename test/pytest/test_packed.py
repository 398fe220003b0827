"""Packed sequences: K recurrent networks on sequences of different lengths equal the networks trained alone."""
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import chorus
from chorus_testing import assert_close, export, nudged, seeded, spec, state, tool

K = N = T = C = 3
STEPS = 12
LR = [0.05, 0.1, 0.2]


class Packed(nn.Module):
    """Classes from all outputs and the last states, so that every result counts."""

    def __init__(self, kind, in_order=False, **options):
        super().__init__()
        self.first, self.in_order, self.total = options.get("batch_first", False), in_order, T + 1
        self.net = kind(C, C, **options)
        out = options.get("proj_size", 0) or C
        self.head, self.states = nn.Linear(out * (1 + options.get("bidirectional", False)), C), nn.Linear(out, C)

    def packed(self, x: Tensor, lengths: Tensor):
        x = x if self.first else x.transpose(0, 1)
        return pack_padded_sequence(x, lengths, batch_first=self.first, enforce_sorted=self.in_order)

    def classes(self, y: Tensor, h: Tensor):
        return self.head(y.sum(1 if self.first else 0)) + self.states(h.sum(0))


class PackedLstm(Packed):
    def forward(self, x: Tensor, lengths: Tensor):
        packed, (h, c) = self.net(self.packed(x, lengths))
        y, own = pad_packed_sequence(packed, batch_first=self.first, padding_value=0.5)
        return self.classes(y, h) + c.sum() + own.unsqueeze(1)


class PackedGru(Packed):
    def forward(self, x: Tensor, lengths: Tensor):
        packed, h = self.net(self.packed(x, lengths))
        y, own = pad_packed_sequence(packed, batch_first=self.first, total_length=self.total)
        return self.classes(y, h) + own.unsqueeze(1)


class GivenState(nn.Module):
    """The first state is a parameter; the steps are embedded while they are packed."""

    def __init__(self):
        super().__init__()
        self.embed, self.net, self.head = nn.Linear(C, C), nn.GRU(C, C), nn.Linear(C, C)
        self.h = nn.Parameter(torch.zeros(1, 1, C) + 0.1)

    def forward(self, x: Tensor, lengths: Tensor):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        data = torch.tanh(self.embed(packed.data))
        steps = nn.utils.rnn.PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
        _, h = self.net(steps, self.h.expand(-1, x.size(0), -1).contiguous())
        return self.head(h[0])


def lstm(**options):
    return lambda: PackedLstm(nn.LSTM, **options)


def gru(**options):
    return lambda: PackedGru(nn.GRU, **options)


def rnn(**options):
    return lambda: PackedGru(nn.RNN, **options)


NETWORKS = {
    "lstm": lstm(batch_first=True),
    "lstm_in_order": lstm(in_order=True),
    "lstm_deep": lstm(num_layers=2, bidirectional=True),
    "lstm_proj": lstm(proj_size=2, num_layers=2, bidirectional=True, batch_first=True),
    "lstm_no_bias": lstm(bias=False),
    "gru": gru(batch_first=True),
    "gru_in_order": gru(batch_first=True, in_order=True),
    "gru_deep": gru(num_layers=3, bidirectional=True),
    "gru_no_bias": gru(bias=False, bidirectional=True),
    "rnn": rnn(batch_first=True),
    "rnn_relu": rnn(nonlinearity="relu", num_layers=2, bidirectional=True),
    "given_state": GivenState,
}


def data(dtype, in_order=False):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(N * STEPS, T, C, generator=generator, dtype=dtype)
    lengths = torch.randint(1, T + 1, (N * STEPS,), generator=generator)
    if in_order:
        lengths = torch.cat([part.sort(descending=True)[0] for part in lengths.split(N)])
    return x, lengths, torch.randint(0, C, (N * STEPS,), generator=generator)


def fuse(folder, build, kind, dtype, arrays, *options):
    x, lengths = arrays[0][:N], arrays[1][:N]
    paths = [export(seeded(build, i, dtype), folder / f"m{i}.pt", (x, lengths), kind) for i in range(K)]
    inputs = ["--input", spec(x), "--input", spec(lengths)] if kind == "script" else []
    tool("fuse", *paths, "-o", folder / "fused.pt", "--loss", "cross_entropy", "--optimizer", "sgd", *inputs, "--lr",
         ",".join(map(str, LR)), *options)
    return paths


def eager(build, i, dtype, arrays, noise=False):
    module = seeded(build, i, dtype)
    if noise:
        nudged(module)
    stepper = torch.optim.SGD(module.parameters(), lr=LR[i])
    for x, lengths, y in zip(*[a.split(N) for a in arrays]):
        stepper.zero_grad()
        F.cross_entropy(module(x, lengths), y).backward()
        stepper.step()
    return module


CASES = [(name, kind, torch.float64) for name in NETWORKS for kind in ("trace", "script")
         if kind == "trace" or name in ("lstm", "lstm_proj", "gru_in_order", "gru_deep", "rnn_relu")]
CASES += [("lstm_deep", "trace", torch.float32), ("gru", "script", torch.float32)]


@pytest.mark.parametrize("name,kind,dtype", CASES)
def test_training_equals_eager(tmp_path, name, kind, dtype):
    build, arrays = NETWORKS[name], data(dtype, "in_order" in name)
    fuse(tmp_path, build, kind, dtype, arrays)
    np.savez(tmp_path / "d.npz", x=arrays[0].numpy(), n=arrays[1].numpy(), y=arrays[2].numpy())
    tool("run", tmp_path / "fused.pt", "--data", tmp_path / "d.npz", "--keys", "x,n,y", "--epochs", 1, "--batch-size", N,
         "--shuffle", "none", "-o", tmp_path / "trained.pt", "--quiet")
    tool("split", tmp_path / "trained.pt", "-o", tmp_path / "members")
    x, lengths = arrays[0][:N], arrays[1][:N]
    for i in range(K):
        want = eager(build, i, dtype, arrays)
        member = torch.jit.load(str(tmp_path / "members" / f"m{i}.pt"))
        assert_close(state(member), state(want), 1e-10 if dtype == torch.float64 else 1e-5,
                     state(eager(build, i, dtype, arrays, noise=True)), state(seeded(build, i, dtype)), f"member {i}")
        want.eval()
        with torch.no_grad():
            assert torch.allclose(member.eval()(x, lengths), want(x, lengths), rtol=1e-3, atol=1e-4), f"member {i}, eval"


@pytest.mark.parametrize("name", list(NETWORKS))
def test_nothing_runs_per_member_and_each_may_have_its_own_input(name):
    """Stacked inputs, one array of lengths; another number of rows and other lengths than the example's."""
    build = NETWORKS[name]
    modules = [seeded(build, i, torch.float64) for i in range(K)]
    x, lengths = torch.randn(N, T, C, dtype=torch.float64), torch.tensor([T, 2, 1])
    fused = chorus.fuse(modules, example_inputs=(x, lengths))
    nodes = fused.chorus_report["nodes"]
    assert not [n for n in nodes if n["kind"] == "per member"], nodes
    own, other = torch.randn(K, N + 1, T, C, dtype=torch.float64), torch.tensor([T - 1, T - 1, 1, 1])
    got, stacked = fused(own, other), dict(fused.named_parameters())
    for i, module in enumerate(modules):
        want = module(own[i], other)
        assert torch.allclose(got[i], want, rtol=1e-9, atol=1e-12), i
        grads = torch.autograd.grad(want.sin().sum(), list(module.parameters()))
        for (n, _), g in zip(module.named_parameters(), grads):
            mine = torch.autograd.grad(got[i].sin().sum(), stacked[n], retain_graph=True)[0]
            assert torch.allclose(mine[i], g, rtol=1e-8, atol=1e-11), n


def test_the_weights_may_be_shared():
    """One set of weights, K inputs: K rows for each row of a step."""
    from chorus import _core
    import io

    class Net(nn.Module):
        def forward(self, x, n, h, a, b, c, d):
            packed = pack_padded_sequence(x, n, batch_first=True, enforce_sorted=False)
            y, last = torch.gru(packed.data, packed.batch_sizes, h, [a, b, c, d], True, 1, 0.0, False, False)
            return y, last

    def drawn(i):
        g = torch.Generator().manual_seed(i)
        sizes = [(N, T, C), (1, N, 2), (6, C), (6, 2), (6,), (6,)]
        made = [torch.randn(*s, generator=g, dtype=torch.float64) for s in sizes]
        return [made[0], torch.tensor([2, 3, 1]), *made[1:]]

    members = [drawn(i) for i in range(K)]
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.trace(Net(), tuple(members[0]), check_trace=False), buffer)
    function = _core.Function(buffer.getvalue())
    leaves = [torch.stack([m[0] for m in members]), members[0][1], torch.stack([m[2] for m in members]), *members[0][3:]]
    outputs, decisions = function.run([True, False, True, False, False, False, False], leaves)
    for i in range(K):
        for got, want in zip(outputs, Net()(members[i][0], members[0][1], members[i][2], *members[0][3:])):
            assert torch.allclose(got[i], want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["trace", "script"])
@pytest.mark.parametrize("network", [nn.LSTM, nn.GRU])
def test_dropout_between_layers_is_the_member_s_own(tmp_path, network, kind):
    """Verified against the original code with the same masks; a member trained alone gets the numbers it gets in company."""
    make = {nn.LSTM: PackedLstm, nn.GRU: PackedGru}[network]
    build, arrays = lambda: make(network, num_layers=3, dropout=0.5), data(torch.float64)
    paths = fuse(tmp_path, build, kind, torch.float64, arrays, "--verify")
    np.savez(tmp_path / "d.npz", x=arrays[0].numpy(), n=arrays[1].numpy(), y=arrays[2].numpy())
    common = ["--data", tmp_path / "d.npz", "--keys", "x,n,y", "--epochs", 1, "--batch-size", N, "--quiet"]
    tool("run", tmp_path / "fused.pt", *common, "-o", tmp_path / "trained.pt")
    together = torch.jit.load(str(tmp_path / "trained.pt")).state_dict()
    inputs = ["--input", spec(arrays[0]), "--input", spec(arrays[1])] if kind == "script" else []
    for i in (0, 2):
        tool("run", paths[i], *common, *inputs, "--loss", "cross_entropy", "--optimizer", "sgd", "--lr", LR[i], "-o",
             tmp_path / f"alone{i}.pt")
        alone = state(torch.jit.load(str(tmp_path / f"alone{i}.pt")))
        assert_close({n: together[n][i] for n in alone}, alone, 1e-10, what=f"member {i}")


def test_lengths_of_each_member_s_own_are_refused():
    modules = [seeded(NETWORKS["gru"], i) for i in range(K)]
    x, lengths = torch.randn(N, T, C), torch.tensor([3, 2, 1])
    fused = chorus.fuse(modules, example_inputs=(x, lengths))
    with pytest.raises(Exception, match="decides the lengths of packed sequences, which all members share"):
        fused(x, lengths.expand(K, -1))


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A fused file and its data; `run` with other lengths or options returns what the tool says."""
    folder, arrays = tmp_path_factory.mktemp("packed"), data(torch.float32)
    fuse(folder, NETWORKS["gru"], "script", torch.float32, arrays)

    def run(*options, lengths=arrays[1]):
        np.savez(folder / "d.npz", x=arrays[0].numpy(), n=lengths.numpy(), y=arrays[2].numpy())
        return tool("run", folder / "fused.pt", "--data", folder / "d.npz", "--keys", "x,n,y", "--epochs", 1, "--batch-size", N, "--quiet",
                    "-o", folder / "trained.pt", *options, ok=False)
    return run, arrays


@pytest.mark.parametrize("length", [0, -1, T + 1])
def test_a_length_that_no_sequence_has_is_refused_with_its_row(case, length):
    run, arrays = case
    lengths = arrays[1].clone()
    lengths[4] = length
    done = run(lengths=lengths)
    assert done.returncode == 1
    assert f"array 'n' has the value {length} in row 4, but the lengths of packed sequences lie in 1..{T}" in done.stderr


@pytest.mark.parametrize("options,code,text", [
    (["--shuffle", "member"], 3, "members see rows of their own, but the array 'n' decides the lengths of packed sequences"),
    (["--bootstrap"], 3, "members see rows of their own"),
    (["--inputs", "shared,stacked", "--targets", "shared"], 1, "array 'n' is declared stacked, but it decides the lengths of packed sequences"),
], ids=["order", "bootstrap", "stacked"])
def test_rows_of_each_member_s_own_are_refused(case, options, code, text):
    run, arrays = case
    done = run(*options, lengths=arrays[1].expand(K, -1) if "--inputs" in options else arrays[1])
    assert done.returncode == code and text in done.stderr, done.stderr
