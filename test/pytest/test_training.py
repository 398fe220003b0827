"""Members trained by chorus equal members trained alone by eager PyTorch, after 20 steps, with rates of their own."""
import pytest
import torch
import torch.nn.functional as F

from chorus_testing import (assert_close, export, nudged, save_npz, seeded, spec, state, tool, train_eagerly)
from networks import SMALL

STEPS, N = 20, 8
OPTIMIZERS = {
    "sgd": (lambda lr, wd: lambda p: torch.optim.SGD(p, lr=lr, momentum=0.9, weight_decay=wd), ["--momentum", "0.9"], 0.02),
    "adamw": (lambda lr, wd: lambda p: torch.optim.AdamW(p, lr=lr, weight_decay=wd), [], 0.003),
}


def rates(k, base):
    return [base * (1 + i) / k for i in range(k)], [0.01 * i for i in range(k)]


def data(shape, classes, dtype):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(N * STEPS, *shape, generator=generator, dtype=dtype)
    return x, torch.randint(0, classes, (N * STEPS,), generator=generator)


def fuse(folder, build, k, kind, optimizer, dtype, x):
    lrs, decays = rates(k, OPTIMIZERS[optimizer][2])
    paths = [export(seeded(build, i, dtype), folder / f"m{i}.pt", x[:N], kind) for i in range(k)]
    inputs = ["--input", spec(x)] if kind == "script" else []
    tool("fuse", *paths, "-o", folder / "fused.pt", "--loss", "cross_entropy", "--optimizer", optimizer, *inputs,
         *OPTIMIZERS[optimizer][1], "--lr", ",".join(map(repr, lrs)), "--weight-decay", ",".join(map(repr, decays)))
    return paths


def reference(build, i, k, optimizer, dtype, x, y, noise=False):
    module = seeded(build, i, dtype)
    if noise:
        nudged(module)
    lrs, decays = rates(k, OPTIMIZERS[optimizer][2])
    losses = train_eagerly(module, zip(x.split(N), y.split(N)), F.cross_entropy, OPTIMIZERS[optimizer][0](lrs[i], decays[i]))
    return module, losses


def check_members(states, build, k, optimizer, dtype, x, y):
    tolerance = 1e-10 if dtype == torch.float64 else 1e-5
    for i in range(k):
        want, _ = reference(build, i, k, optimizer, dtype, x, y)
        noisy, _ = reference(build, i, k, optimizer, dtype, x, y, noise=True)
        assert_close(states[i], state(want), tolerance, state(noisy), state(seeded(build, i, dtype)), f"member {i}")


CASES = [("mlp", 1, "trace", "sgd", "f32"), ("mlp", 3, "script", "adamw", "f32"), ("mlp", 8, "trace", "adamw", "f64"),
         ("lenet", 2, "trace", "adamw", "f32"), ("lenet", 8, "script", "sgd", "f64"), ("lenet", 1, "script", "adamw", "f64"),
         ("conv_bn_dropout", 3, "trace", "sgd", "f64"), ("conv_bn_dropout", 8, "script", "adamw", "f64"),
         ("conv_bn_dropout", 2, "trace", "adamw", "f32"), ("conv_bn_dropout", 1, "script", "sgd", "f32")]


@pytest.mark.parametrize("name,k,kind,optimizer,dtype", CASES)
def test_chorus_run_equals_eager(tmp_path, name, k, kind, optimizer, dtype):
    build, shape, classes = SMALL[name]
    dtype = {"f32": torch.float32, "f64": torch.float64}[dtype]
    x, y = data(shape, classes, dtype)
    fuse(tmp_path, build, k, kind, optimizer, dtype, x)
    tool("run", tmp_path / "fused.pt", "--data", save_npz(tmp_path / "d.npz", x, y), "--epochs", 1, "--batch-size", N,
         "--shuffle", "none", "-o", tmp_path / "trained.pt", "--quiet")
    tool("split", tmp_path / "trained.pt", "-o", tmp_path / "members")
    split = [torch.jit.load(str(tmp_path / "members" / f"m{i}.pt")) for i in range(k)]
    check_members([state(m) for m in split], build, k, optimizer, dtype, x, y)
    for i, member in enumerate(split):
        want, _ = reference(build, i, k, optimizer, dtype, x, y)
        want.eval()
        with torch.no_grad():
            assert torch.allclose(member.eval()(x[:N]), want(x[:N]), rtol=1e-3, atol=1e-4), f"member {i} in eval mode"


@pytest.mark.parametrize("name,k,kind,optimizer", [("mlp", 3, "trace", "adamw"), ("conv_bn_dropout", 2, "script", "sgd")])
def test_train_step_in_plain_pytorch_equals_eager(tmp_path, name, k, kind, optimizer):
    build, shape, classes = SMALL[name]
    x, y = data(shape, classes, torch.float64)
    fuse(tmp_path, build, k, kind, optimizer, torch.float64, x)
    fused = torch.jit.load(str(tmp_path / "fused.pt")).train()
    losses = torch.stack([fused.train_step(a, b) for a, b in zip(x.split(N), y.split(N))], 1)
    keys = state(build())
    states = [{n: fused.state_dict()[n][i] for n in keys} for i in range(k)]
    check_members(states, build, k, optimizer, torch.float64, x, y)
    for i in range(k):
        _, want = reference(build, i, k, optimizer, torch.float64, x, y)
        assert torch.allclose(losses[i], torch.tensor(want, dtype=losses.dtype), rtol=1e-6)


def test_a_loop_of_ones_own_over_a_forward_only_file(tmp_path):
    build, shape, classes = SMALL["conv_bn_dropout"]
    x, y = data(shape, classes, torch.float64)
    paths = [export(seeded(build, i, torch.float64), tmp_path / f"m{i}.pt", x[:N]) for i in range(3)]
    tool("fuse", *paths, "-o", tmp_path / "fused.pt")
    fused = torch.jit.load(str(tmp_path / "fused.pt")).train()
    optimizer = torch.optim.AdamW(fused.parameters(), lr=0.003)
    for a, b in zip(x.split(N), y.split(N)):
        optimizer.zero_grad()
        out = fused(a)
        sum(F.cross_entropy(out[i], b) for i in range(3)).backward()
        optimizer.step()
    for i in range(3):
        want = seeded(build, i, torch.float64)
        train_eagerly(want, zip(x.split(N), y.split(N)), F.cross_entropy, lambda p: torch.optim.AdamW(p, lr=0.003))
        got = {n: fused.state_dict()[n][i] for n in state(want)}
        assert_close(got, state(want), 1e-9, what=f"member {i}")


def trained_states(folder, tag, modules, x, y, lrs):
    folder = folder / tag
    folder.mkdir()
    paths = [export(m, folder / f"m{i}.pt", x[:N]) for i, m in enumerate(modules)]
    tool("fuse", *paths, "-o", folder / "fused.pt", "--no-verify", "--loss", "cross_entropy", "--optimizer", "adam", "--lr",
         ",".join(map(repr, lrs)))
    tool("run", folder / "fused.pt", "--data", save_npz(folder / "d.npz", x, y), "--epochs", 1, "--batch-size", N, "--quiet",
         "--seed", 3, "-o", folder / "trained.pt")
    trained = torch.jit.load(str(folder / "trained.pt")).state_dict()
    return [{n: trained[n][i] for n in state(modules[0])} for i in range(len(modules))]


@pytest.mark.parametrize("name", SMALL)
def test_permuting_the_members_permutes_the_results(tmp_path, name):
    build, shape, classes = SMALL[name]
    x, y = data(shape, classes, torch.float64)
    modules, lrs, order = [seeded(build, i, torch.float64) for i in range(3)], [0.01, 0.02, 0.003], [2, 0, 1]
    straight = trained_states(tmp_path, "a", modules, x, y, lrs)
    permuted = trained_states(tmp_path, "b", [modules[i] for i in order], x, y, [lrs[i] for i in order])
    for place, i in enumerate(order):
        assert_close(permuted[place], straight[i], 1e-10, what=f"member {i}")


@pytest.mark.parametrize("name", SMALL)
def test_perturbing_one_member_moves_no_other_bit(tmp_path, name):
    build, shape, classes = SMALL[name]
    x, y = data(shape, classes, torch.float32)
    modules, lrs = [seeded(build, i) for i in range(3)], [0.01, 0.02, 0.003]
    before = trained_states(tmp_path, "a", modules, x, y, lrs)
    with torch.no_grad():
        next(modules[1].parameters()).mul_(1.5)
    after = trained_states(tmp_path, "b", modules, x, y, lrs)
    for i in (0, 2):
        for n in before[i]:
            assert torch.equal(before[i][n], after[i][n]), f"member {i} {n}"
    assert any(not torch.equal(before[1][n], after[1][n]) for n in before[1])
