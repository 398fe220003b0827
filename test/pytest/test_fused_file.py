# ctest: quick
"""A fused file in plain PyTorch: optimizers, masks, modes, devices, slicing, saving again, loops of one's own."""
import pytest
import torch
from torch import nn, optim

from chorus_testing import export, seeded, state, tool

K, N, STEPS = 3, 3, 30
LR, DECAY = [0.1, 0.05, 0.01], [0.0, 0.1, 0.01]


def data(dtype=torch.float32):
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(STEPS, N, 3, generator=generator, dtype=dtype)
    return x, torch.randint(0, 3, (STEPS, N), generator=generator)


def net():
    return nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))


class Moving(nn.Module):
    """Batch norm, and one weight under two names."""

    def __init__(self):
        super().__init__()
        self.a, self.bn, self.b = nn.Linear(3, 3, bias=False), nn.BatchNorm1d(3), nn.Linear(3, 3)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(torch.relu(self.bn(self.a(x))))


def fuse(folder, build, *options, dtype=torch.float32, loss="cross_entropy"):
    x = data(dtype)[0][0]
    paths = [export(seeded(build, i, dtype), folder / f"m{i}.pt", x) for i in range(K)]
    if loss:
        options = ["--loss", loss, *options]
    tool("fuse", *paths, "-o", folder / "fused.pt", "--no-verify", *options)
    return torch.jit.load(str(folder / "fused.pt")).train()


def comma(values):
    return ",".join(map(repr, values))


CASES = {
    "sgd": (["--momentum", "0.9,0.0,0.5", "--dampening", "0.1,0.0,0.3"],
            lambda k: dict(cls=optim.SGD, momentum=[0.9, 0, 0.5][k], dampening=[0.1, 0, 0.3][k])),
    "sgd nesterov": (["--momentum", "0.9", "--nesterov"], lambda k: dict(cls=optim.SGD, momentum=0.9, nesterov=True)),
    "adam": (["--betas", "0.9,0.999;0.5,0.9;0.0,0.5", "--eps", "1e-8,1e-3,1.0"],
             lambda k: dict(cls=optim.Adam, betas=[(0.9, 0.999), (0.5, 0.9), (0.0, 0.5)][k], eps=[1e-8, 1e-3, 1.0][k])),
    "adam amsgrad": (["--amsgrad", "--maximize"], lambda k: dict(cls=optim.Adam, amsgrad=True, maximize=True)),
    "adamw": ([], lambda k: dict(cls=optim.AdamW)),
    "nadam": (["--momentum-decay", "0.1,0.01,0.0"], lambda k: dict(cls=optim.NAdam, momentum_decay=[0.1, 0.01, 0][k])),
    "radam": ([], lambda k: dict(cls=optim.RAdam)),
    "adamax": ([], lambda k: dict(cls=optim.Adamax)),
    "adagrad": (["--lr-decay", "0.1,0.0,0.01", "--initial-accumulator-value", "0.0,0.1,0.5"],
                lambda k: dict(cls=optim.Adagrad, lr_decay=[0.1, 0, 0.01][k], initial_accumulator_value=[0, 0.1, 0.5][k])),
    "adadelta": (["--rho", "0.9,0.5,0.1"], lambda k: dict(cls=optim.Adadelta, rho=[0.9, 0.5, 0.1][k])),
    "rmsprop": (["--momentum", "0.9,0.0,0.2", "--centered"],
                lambda k: dict(cls=optim.RMSprop, momentum=[0.9, 0, 0.2][k], centered=True)),
    "asgd": (["--lambd", "0.0001,0.1,0.01", "--t0", "1000000.0,3.0,10.0"],
             lambda k: dict(cls=optim.ASGD, lambd=[1e-4, 0.1, 0.01][k], t0=[1e6, 3, 10][k])),
    "rprop": ([], lambda k: dict(cls=optim.Rprop)),
}


@pytest.mark.parametrize("name", CASES)
def test_optimizers_are_those_of_torch(name, tmp_path):
    """In fp64 to the last digits: the formulas are the same, not similar."""
    options, arguments = CASES[name]
    lrs = [lr * (0.1 if name.split()[0] in ("adam", "rmsprop", "rprop") else 1) for lr in LR]
    if name != "rprop":
        options = [*options, "--weight-decay", comma(DECAY)]
    fused = fuse(tmp_path, net, "--optimizer", name.split()[0], "--lr", comma(lrs), *options, dtype=torch.float64)
    x, y = data(torch.float64)
    for rows, labels in zip(x, y):
        fused.train_step(rows, labels)
    got = fused.state_dict()
    for k in range(K):
        alone, kwargs = seeded(net, k, torch.float64), arguments(k)
        if name != "rprop":
            kwargs["weight_decay"] = DECAY[k]
        stepper = kwargs.pop("cls")(alone.parameters(), lr=lrs[k], **kwargs)
        for rows, labels in zip(x, y):
            stepper.zero_grad()
            nn.functional.cross_entropy(alone(rows), labels).backward()
            stepper.step()
        for n, want in state(alone).items():
            assert torch.allclose(got[n][k], want, rtol=1e-11, atol=1e-11), f"{n} of member {k}"


@pytest.fixture
def moving(tmp_path):
    return fuse(tmp_path, Moving, "--optimizer", "adamw", "--lr", comma(LR)), tmp_path


def test_names_and_shapes(moving):
    fused, folder = moving
    member = torch.jit.load(str(folder / "m0.pt"))
    own = {n: t for n, t in fused.state_dict().items() if not n.startswith("chorus.")}
    assert list(fused.member_names) == ["m0", "m1", "m2"]
    assert {n: tuple(t.shape) for n, t in own.items()} == {n: (K, *t.shape) for n, t in member.state_dict().items()}
    assert not any(n.startswith("chorus.") for n, _ in fused.named_parameters())


def test_an_inactive_member_keeps_every_byte(moving):
    fused, _ = moving
    x, y = data()
    fused.train_step(x[0], y[0])
    before = {n: t.clone() for n, t in fused.state_dict().items()}
    fused.chorus.active[1] = False
    rows = torch.stack([x[1]] * K)
    rows[1] = float("nan")
    fused.train_step(rows, y[1])
    fused(rows)
    for n, t in fused.state_dict().items():
        if n != "chorus.active" and n not in fused.shared_names:
            assert torch.equal(t[1], before[n][1]), n
            assert not torch.isnan(t.double()).any(), n
    assert not torch.equal(fused.state_dict()["bn.running_mean"][0], before["bn.running_mean"][0])


def test_no_grad_failures_and_inference_mode(moving):
    fused, _ = moving
    x, y = data()
    before = {n: t.clone() for n, t in fused.state_dict().items()}
    with torch.no_grad():
        for rows, labels, message in [(x[0][0], y[0], "input 0 has rank 1"), (x[0], y[0] + 3, ""),
                                      (x[0].expand(2, N, 3), y[0], "stacked for 2 members, but there are 3")]:
            with pytest.raises(Exception, match=message):
                fused.train_step(rows, labels)
            assert not torch.is_grad_enabled()
        assert all(torch.equal(t, before[n]) for n, t in fused.state_dict().items())
        fused.train_step(x[0], y[0])
        assert not torch.is_grad_enabled()
    with torch.inference_mode(), pytest.raises(Exception, match="not possible under torch.inference_mode"):
        fused.train_step(x[0], y[0])


def test_other_devices_and_dtypes(moving):
    _, folder = moving
    x, y = data()
    meta = torch.jit.load(str(folder / "fused.pt"), map_location="meta").train()
    assert meta.train_step(x[0].to("meta"), y[0].to("meta")).shape == (K,)
    double = torch.jit.load(str(folder / "fused.pt")).double().train()
    assert double.train_step(x[0].double(), y[0]).dtype == torch.float64
    with pytest.raises(Exception, match="a cast of the module rounded its hyperparameters"):
        torch.jit.load(str(folder / "fused.pt")).half().train().train_step(x[0].half(), y[0])


def test_every_slice_is_a_smaller_file(moving):
    fused, folder = moving
    x, y = data()
    small = torch.jit.load(str(folder / "fused.pt")).train()
    for n, t in [*small.named_parameters(), *small.named_buffers()]:
        if n not in small.shared_names:
            t.data = t.data[1:]
    for rows, labels in zip(x[:3], y[:3]):
        whole, part = fused.train_step(rows, labels), small.train_step(rows, labels)
        assert torch.allclose(whole[1:], part, rtol=1e-5)


def test_saved_again_it_still_splits(moving):
    fused, folder = moving
    x, y = data()
    fused.train_step(x[0], y[0])
    torch.jit.save(fused, str(folder / "again.pt"))
    tool("split", folder / "again.pt", "-o", folder / "members")
    for k in range(K):
        member = torch.jit.load(str(folder / "members" / f"m{k}.pt")).eval()
        for n, t in member.state_dict().items():
            assert torch.equal(t, fused.state_dict()[n][k]), n
        assert torch.allclose(member(x[1]), fused.eval()(x[1])[k], atol=1e-6)


def test_a_loop_of_ones_own(tmp_path):
    fused = fuse(tmp_path, Moving, loss=None)
    x, y = data()
    mine = optim.AdamW(fused.parameters(), lr=0.01)
    alone = [seeded(Moving, k) for k in range(K)]
    theirs = [optim.AdamW(m.parameters(), lr=0.01) for m in alone]
    for rows, labels in zip(x, y):
        mine.zero_grad()
        sum(nn.functional.cross_entropy(out, labels) for out in fused(rows)).backward()
        mine.step()
        for member, stepper in zip(alone, theirs):
            stepper.zero_grad()
            nn.functional.cross_entropy(member(rows), labels).backward()
            stepper.step()
    for k in range(K):
        for n, want in state(alone[k]).items():
            assert torch.allclose(fused.state_dict()[n][k], want, rtol=1e-4, atol=1e-5), f"{n} of member {k}"
