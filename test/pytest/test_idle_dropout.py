"""Members of which some drop and others, with p = 0, do not: inside attention and between the layers of recurrent networks."""
import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from chorus_testing import assert_close, export, seeded, state, tool, train_eagerly

N = C = 4  # = K: a wrong axis cannot raise
RATES = [0.1, 0.0, 0.3, 0.5]
LR, EPOCHS = 0.05, 4


class Attention(nn.Module):
    def __init__(self, p, after=0.0):
        super().__init__()
        self.project, self.last, self.p, self.after = nn.Linear(C, 3 * C), nn.Linear(C, C), p, nn.Dropout(after)

    def forward(self, x):
        q, k, v = self.project(x).view(x.size(0), -1, 2, 6).transpose(1, 2).chunk(3, -1)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p if self.training else 0.0, is_causal=True)
        return self.last(self.after(y.transpose(1, 2).flatten(2)))


class Encoder(nn.Module):
    def __init__(self, p, after=0.0):
        super().__init__()
        self.layer, self.after = nn.TransformerEncoderLayer(C, 2, 8, dropout=p, batch_first=True), nn.Dropout(after)

    def forward(self, x):
        return self.after(self.layer(x))


class Recurrent(nn.Module):
    def __init__(self, kind, p, after=0.0, **options):
        super().__init__()
        self.net, self.after = getattr(nn, kind)(C, C, 2, dropout=p, batch_first=True, **options), nn.Dropout(after)
        self.last = nn.Linear(2 * C if options else C, C)

    def forward(self, x):
        return self.last(self.after(self.net(x)[0]))


NETS = {
    "attention": Attention,
    "encoder": Encoder,
    "lstm": lambda p, after=0.0: Recurrent("LSTM", p, after),
    "gru, both ways": lambda p, after=0.0: Recurrent("GRU", p, after, bidirectional=True),
    "rnn": lambda p, after=0.0: Recurrent("RNN", p, after),
}


def fuse(folder, build, rates, after, kind, out):
    files = []
    for k, p in enumerate(rates):
        files.append(export(seeded(lambda p=p: build(p, after), k).train(), folder / f"{out}{k}.pt", torch.randn(N, C, C), kind).name)
    done = tool("fuse", *files, "-o", f"{out}.pt", "--input", f"f32[N,{C},{C}]", cwd=folder)
    assert "varies: dropout 'p'" in done.stderr + done.stdout
    return files


def run(folder, model):
    tool("run", model, "--data", "d.npz", "--loss", "mse", "--optimizer", "sgd", "--lr", LR, "--epochs", EPOCHS, "--batch-size", N,
         "--shuffle", "none", "--quiet", "-o", f"trained_{model}", cwd=folder)
    return folder / f"trained_{model}"


def trained(folder, files, out):
    run(folder, f"{out}.pt")
    tool("split", f"trained_{out}.pt", "-o", f"{out}_parts", cwd=folder)
    return [state(torch.jit.load(folder / f"{out}_parts" / f)) for f in files]


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "d.npz", x=rng.normal(size=(3 * N, C, C)).astype(np.float32), y=rng.normal(size=(3 * N, C, C)).astype(np.float32))
    return tmp_path


@pytest.mark.parametrize("name,kind", list(itertools.product(NETS, ["trace", "script"])))
def test_a_member_that_never_drops_trains_as_in_eager(folder, name, kind):
    files = fuse(folder, NETS[name], RATES, 0.0, kind, "a")
    got = trained(folder, files, "a")
    data = np.load(folder / "d.npz")
    x, y = torch.from_numpy(data["x"]), torch.from_numpy(data["y"])
    batches = [(x[i:i + N], y[i:i + N]) for i in range(0, 3 * N, N)] * EPOCHS
    k = RATES.index(0.0)
    net = seeded(lambda: NETS[name](0.0), k)
    before = state(net)
    train_eagerly(net, batches, F.mse_loss, lambda p: torch.optim.SGD(p, lr=LR))
    assert_close(got[k], state(net), 1e-5, moved_from=before)
    # Neighbours that drop otherwise move no bit of it, and it evaluates like any other.
    again = trained(folder, fuse(folder, NETS[name], [0.6, 0.0, 0.2, 0.9], 0.0, kind, "b"), "b")
    assert all(torch.equal(again[k][n], t) for n, t in got[k].items())
    assert not torch.equal(again[0][next(iter(got[0]))], got[0][next(iter(got[0]))])
    net.eval()
    fused = torch.jit.load(folder / "trained_a.pt").eval()
    assert_close({"y": fused(x[:N])[k].detach()}, {"y": net(x[:N]).detach()}, 1e-4)


@pytest.mark.parametrize("name", NETS)
def test_every_member_draws_what_it_draws_alone(folder, name):
    """The dropout behind has another number in a graph that drops before it: each member keeps its own."""
    rates = [0.0, 0.3, 0.5]  # the first one, whose graph becomes the fused one, does not drop
    files = fuse(folder, NETS[name], rates, 0.4, "trace", "a")
    got = trained(folder, files, "a")
    for k, file in enumerate(files):
        alone = state(torch.jit.load(run(folder, file)))
        assert_close(got[k], alone, 1e-5, moved_from=state(seeded(lambda k=k: NETS[name](rates[k]), k)), what=f"member {k}")
    # What was split goes on in the same way.
    tool("split", "a.pt", "-o", "parts", cwd=folder)
    (folder / "parts" / "d.npz").write_bytes((folder / "d.npz").read_bytes())
    for k, file in enumerate(files):
        part = state(torch.jit.load(run(folder / "parts", file)))
        assert_close(got[k], part, 1e-5, moved_from=state(seeded(lambda k=k: NETS[name](rates[k]), k)), what=f"part {k}")


def test_masks_of_members_are_independent(folder):
    files = []
    for k, p in enumerate([0.5, 0.0, 0.5]):
        files.append(export(seeded(lambda p=p: Attention(p), 0).train(), folder / f"m{k}.pt", torch.randn(N, C, C)).name)  # equal weights
    tool("fuse", *files, "-o", "f.pt", cwd=folder)
    fused, x = torch.jit.load(folder / "f.pt").train(), torch.randn(64, C, C)
    plain = seeded(lambda: Attention(0.0), 0)(x)
    a, b, c = fused(x)
    assert torch.allclose(b, plain, atol=1e-6)
    assert not torch.allclose(a, plain, atol=1e-2) and not torch.allclose(a, c, atol=1e-2)
