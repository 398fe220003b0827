"""Each member trains as if alone: schedules, optimizers, stopping, averages, isolation and resumption, against PyTorch."""
import json
import os
import signal
import subprocess
import time
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler as schedulers

from chorus_testing import BIN, assert_close, export, nudged, state, tool

K = 3
N = 12
LRS = [0.02, 0.05, 0.1]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


def make(k, dtype=torch.float32):
    torch.manual_seed(k)
    return Net().to(dtype)


@pytest.fixture(scope="module", params=["f32", "f64"])
def both(request, tmp_path_factory):
    return prepare(tmp_path_factory.mktemp(request.param), {"f32": torch.float32, "f64": torch.float64}[request.param])


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("f32"), torch.float32)


class Case:
    def __init__(self, folder, dtype, x, y):
        self.folder, self.dtype, self.x, self.y = folder, dtype, x, y
        self.tolerance = 1e-5 if dtype == torch.float32 else 1e-10

    def run(self, *options, out="t.pt", epochs=30, model="fused.pt", batch=N, ok=True, env=None):
        return tool("run", model, "--data", "d.npz", "--batch-size", batch, "--epochs", epochs, "--shuffle", "none", "--quiet",
                    "-o", out, *options, cwd=self.folder, ok=ok, env=env)

    def members(self, file="t.pt"):
        tool("split", file, "-o", "members", "--force", cwd=self.folder)
        return [state(torch.jit.load(self.folder / "members" / f"m{k}.pt")) for k in range(K)]

    def fuse(self, out, *options):
        tool("fuse", *[f"m{k}.pt" for k in range(K)], "-o", out, "--no-verify", *options, cwd=self.folder)

    def close(self, got, want, noisy=None):
        """Within the design's tolerance, or 30 times what one rounding of the initial weights makes of the same run."""
        assert list(got) == list(want)
        assert_close(got, want, self.tolerance, noisy)


def prepare(folder, dtype):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(N, 3, generator=generator, dtype=torch.float64).to(dtype)
    y = torch.randn(N, 3, generator=generator, dtype=torch.float64).to(dtype)
    np.savez(folder / "d.npz", x=x.numpy(), y=y.numpy())
    for k in range(K):
        export(make(k, dtype), folder / f"m{k}.pt", x)
    case = Case(folder, dtype, x, y)
    case.fuse("fused.pt")
    return case


def eager(case, k, optimizer, steps, scheduler=None, after=None, noise=False):
    """Returns the state after `steps` full-batch steps, and the rate of each."""
    net = make(k, case.dtype)
    if noise:
        nudged(net)
    stepper = optimizer(net)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = scheduler(stepper) if scheduler else None
        rates = []
        for _ in range(steps):
            stepper.zero_grad()
            loss = nn.functional.mse_loss(net(case.x), case.y)
            loss.backward()
            rates.append(stepper.param_groups[0]["lr"])
            stepper.step()
            if after:
                after(net)
            if plan:
                plan.step(*([float(loss.detach())] if isinstance(plan, schedulers.ReduceLROnPlateau) else []))
    return state(net), rates


# Option text per member, and PyTorch's scheduler with the same arguments.
SCHEDULES = {
    "constant": (["constant:factor=0.5,total_iters=4", "constant", "constant:factor=0.1,total_iters=7"],
                 [lambda o: schedulers.ConstantLR(o, 0.5, 4), lambda o: schedulers.ConstantLR(o, 1.0, 5),
                  lambda o: schedulers.ConstantLR(o, 0.1, 7)]),
    "step": ([f"step:step_size={s},gamma={g}" for s, g in ((5, 0.5), (7, 0.1), (11, 0.9))],
             [lambda o, s=s, g=g: schedulers.StepLR(o, s, g) for s, g in ((5, 0.5), (7, 0.1), (11, 0.9))]),
    "multistep": (["multistep:milestones=3,9,gamma=0.5", "multistep:milestones=[4]", "multistep:gamma=0.3,milestones=1,2,20"],
                  [lambda o: schedulers.MultiStepLR(o, [3, 9], 0.5), lambda o: schedulers.MultiStepLR(o, [4]),
                   lambda o: schedulers.MultiStepLR(o, [1, 2, 20], 0.3)]),
    "exponential": ([f"exponential:gamma={g}" for g in (0.9, 0.95, 0.5)],
                    [lambda o, g=g: schedulers.ExponentialLR(o, g) for g in (0.9, 0.95, 0.5)]),
    "linear": (["linear:total_iters=9", "linear:start_factor=0.2,end_factor=0.8,total_iters=20", "linear:start_factor=1,end_factor=0"],
               [lambda o: schedulers.LinearLR(o, total_iters=9), lambda o: schedulers.LinearLR(o, 0.2, 0.8, 20),
                lambda o: schedulers.LinearLR(o, 1.0, 0.0)]),
    "polynomial": ([f"polynomial:total_iters={t},power={p}" for t, p in ((20, 1), (25, 2), (30, 0.5))],
                   [lambda o, t=t, p=p: schedulers.PolynomialLR(o, t, p) for t, p in ((20, 1), (25, 2), (30, 0.5))]),
    "cosine": ([f"cosine:T_max={t},eta_min={e}" for t, e in ((30, 0), (10, 0.001), (17, 0.01))],
               [lambda o, t=t, e=e: schedulers.CosineAnnealingLR(o, t, e) for t, e in ((30, 0), (10, 0.001), (17, 0.01))]),
    "cosine_warm_restarts": ([f"cosine_warm_restarts:T_0={t},T_mult={m},eta_min={e}" for t, m, e in ((5, 1, 0), (4, 2, 0.001), (7, 3, 0))],
                             [lambda o, t=t, m=m, e=e: schedulers.CosineAnnealingWarmRestarts(o, t, m, e)
                              for t, m, e in ((5, 1, 0), (4, 2, 0.001), (7, 3, 0))]),
    "one_cycle": (["one_cycle:max_lr=0.1,total_steps=30", "one_cycle@step:max_lr=0.2,total_steps=40,pct_start=0.4,anneal_strategy=linear",
                   "one_cycle:max_lr=0.1,total_steps=30,three_phase=true,div_factor=10,final_div_factor=100,base_momentum=0.5"],
                  [lambda o: schedulers.OneCycleLR(o, 0.1, 30),
                   lambda o: schedulers.OneCycleLR(o, 0.2, 40, pct_start=0.4, anneal_strategy="linear"),
                   lambda o: schedulers.OneCycleLR(o, 0.1, 30, three_phase=True, div_factor=10, final_div_factor=100, base_momentum=0.5)]),
    "cyclic": (["cyclic:base_lr=0.01,max_lr=0.1,step_size_up=4", "cyclic:base_lr=0.01,max_lr=0.1,step_size_up=3,step_size_down=5,mode=triangular2",
                "cyclic:base_lr=0.01,max_lr=0.1,step_size_up=4,mode=exp_range,gamma=0.9,cycle_momentum=false"],
               [lambda o: schedulers.CyclicLR(o, 0.01, 0.1, 4), lambda o: schedulers.CyclicLR(o, 0.01, 0.1, 3, 5, "triangular2"),
                lambda o: schedulers.CyclicLR(o, 0.01, 0.1, 4, mode="exp_range", gamma=0.9, cycle_momentum=False)]),
    "reduce_on_plateau": (["reduce_on_plateau:patience=1,threshold=0.05,factor=0.5", "reduce_on_plateau:patience=0,threshold=0.1,cooldown=2",
                           "reduce_on_plateau:patience=2,threshold=0.02,threshold_mode=abs,min_lr=0.01"],
                          [lambda o: schedulers.ReduceLROnPlateau(o, patience=1, threshold=0.05, factor=0.5),
                           lambda o: schedulers.ReduceLROnPlateau(o, patience=0, threshold=0.1, cooldown=2),
                           lambda o: schedulers.ReduceLROnPlateau(o, patience=2, threshold=0.02, threshold_mode="abs", min_lr=0.01)]),
    "inverse_sqrt": ([f"inverse_sqrt:warmup_steps={w}" for w in (4, 1, 9)],
                     [lambda o, w=w: schedulers.LambdaLR(o, lambda t: min((t + 1) / w, (w / (t + 1)) ** 0.5)) for w in (4, 1, 9)]),
    "warmup": (["cosine:T_max=20,warmup=5", "step:step_size=4,warmup=3,warmup_start=0.1", "exponential:gamma=0.9,warmup=7,warmup_start=0.01"],
               [lambda o: schedulers.SequentialLR(o, [schedulers.LinearLR(o, total_iters=5), schedulers.CosineAnnealingLR(o, 20)], [5]),
                lambda o: schedulers.SequentialLR(o, [schedulers.LinearLR(o, 0.1, total_iters=3), schedulers.StepLR(o, 4)], [3]),
                lambda o: schedulers.SequentialLR(o, [schedulers.LinearLR(o, 0.01, total_iters=7), schedulers.ExponentialLR(o, 0.9)], [7])]),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_those_of_pytorch_at_every_step(single, name):
    texts, plans = SCHEDULES[name]
    single.run("--loss", "mse", "--optimizer", "sgd", "--lr", ",".join(map(str, LRS)), "--momentum", "0.9", "--lr-schedule",
               ";".join(texts), "--log", "log.jsonl")
    lines = [json.loads(line) for line in (single.folder / "log.jsonl").read_text().splitlines()]
    got = single.members()
    for k in range(K):
        want, rates = eager(single, k, lambda net: torch.optim.SGD(net.parameters(), LRS[k], momentum=0.9), 30, plans[k])
        np.testing.assert_allclose([line["lr"][k] for line in lines], rates, rtol=1e-9, atol=1e-15)
        single.close(got[k], want)


def test_a_table_of_rates(single):
    (single.folder / "rates.txt").write_text("0.1 0.05\n0.02\n")
    single.run("--loss", "mse", "--optimizer", "sgd", "--lr", "1", "--lr-schedule", "table:file=rates.txt", "--log", "log.jsonl", epochs=5)
    lines = [json.loads(line) for line in (single.folder / "log.jsonl").read_text().splitlines()]
    assert [line["lr"][1] for line in lines] == [0.1, 0.05, 0.02, 0.02, 0.02]


def three(**values):
    """--name a,b,c and the three keyword dicts."""
    options, each = [], [{} for _ in range(K)]
    for name, numbers in values.items():
        if isinstance(numbers, bool):
            options.append("--" + name.replace("_", "-"))
        elif isinstance(numbers[0], tuple):
            options += ["--" + name.replace("_", "-"), ";".join(",".join(map(str, pair)) for pair in numbers)]
        else:
            options += ["--" + name.replace("_", "-"), ",".join(map(str, numbers))]
        for k in range(K):
            each[k][name] = numbers if isinstance(numbers, bool) else numbers[k]
    return options, each


BETAS = [(0.9, 0.99), (0.8, 0.999), (0.95, 0.9)]
ADAM = dict(lr=[0.01, 0.003, 0.02], betas=BETAS, eps=[1e-8, 1e-6, 1e-4], weight_decay=[0.01, 0.1, 0.0])
OPTIMIZERS = {
    "sgd": ("sgd", torch.optim.SGD, dict(lr=LRS, momentum=[0.9, 0.5, 0.0], dampening=[0.0, 0.2, 0.1], weight_decay=[0.01, 0.0, 0.1])),
    "sgd nesterov": ("sgd", torch.optim.SGD, dict(lr=LRS, momentum=[0.9, 0.5, 0.7], weight_decay=[0.01, 0.0, 0.1], nesterov=True)),
    "sgd maximize": ("sgd", torch.optim.SGD, dict(lr=[0.001, 0.002, 0.003], momentum=[0.9, 0.5, 0.7], maximize=True)),
    "adam": ("adam", torch.optim.Adam, ADAM),
    "adam amsgrad": ("adam", torch.optim.Adam, dict(ADAM, amsgrad=True)),
    "adamw": ("adamw", torch.optim.AdamW, ADAM),
    "adamw amsgrad maximize": ("adamw", torch.optim.AdamW, dict(ADAM, amsgrad=True, maximize=True)),
    "adamax": ("adamax", torch.optim.Adamax, ADAM),
    "nadam": ("nadam", torch.optim.NAdam, dict(ADAM, momentum_decay=[0.004, 0.01, 0.1])),
    "nadam decoupled": ("nadam", torch.optim.NAdam, dict(ADAM, decoupled_weight_decay=True)),
    "radam": ("radam", torch.optim.RAdam, ADAM),
    "radam decoupled": ("radam", torch.optim.RAdam, dict(ADAM, decoupled_weight_decay=True)),
    "rmsprop": ("rmsprop", torch.optim.RMSprop, dict(lr=[0.01, 0.003, 0.02], alpha=[0.99, 0.9, 0.8], eps=[1e-8, 1e-6, 1e-4],
                                                     weight_decay=[0.01, 0.1, 0.0], momentum=[0.9, 0.0, 0.5])),
    "rmsprop centered": ("rmsprop", torch.optim.RMSprop, dict(lr=[0.01, 0.003, 0.02], alpha=[0.99, 0.9, 0.8], eps=[1e-6, 1e-5, 1e-4],
                                                              momentum=[0.9, 0.0, 0.5], centered=True)),
    "adagrad": ("adagrad", torch.optim.Adagrad, dict(lr=LRS, lr_decay=[0.01, 0.1, 0.0], weight_decay=[0.01, 0.0, 0.1],
                                                     initial_accumulator_value=[0.0, 0.1, 1.0], eps=[1e-10, 1e-8, 1e-6])),
    "adadelta": ("adadelta", torch.optim.Adadelta, dict(lr=[1.0, 0.5, 2.0], rho=[0.9, 0.8, 0.95], eps=[1e-6, 1e-5, 1e-4],
                                                        weight_decay=[0.01, 0.0, 0.1])),
    "asgd": ("asgd", torch.optim.ASGD, dict(lr=LRS, lambd=[1e-4, 1e-2, 0.0], alpha=[0.75, 0.5, 1.0], t0=[1e6, 10, 20],
                                            weight_decay=[0.01, 0.0, 0.1])),
    "rprop": ("rprop", torch.optim.Rprop, dict(lr=[0.01, 0.003, 0.02], etas=[(0.5, 1.2), (0.4, 1.1), (0.6, 1.3)],
                                               step_sizes=[(1e-6, 50.0), (1e-5, 0.1), (1e-4, 1.0)])),
}
OPTIMIZERS["adafactor"] = ("adafactor", torch.optim.Adafactor, dict(
    lr=[0.01, 0.02, 0.05], beta2_decay=[-0.8, -0.5, -0.9], d=[1.0, 1.5, 2.0], weight_decay=[0.0, 0.01, 0.1]))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_are_those_of_pytorch(both, name):
    option, make_optimizer, values = OPTIMIZERS[name]
    options, each = three(**values)
    both.run("--loss", "mse", "--optimizer", option, *options, epochs=50)
    got = both.members()
    for k in range(K):
        want, noisy = (eager(both, k, lambda net: make_optimizer(net.parameters(), foreach=False, **each[k]), 50, noise=noise)[0]
                       for noise in (False, True))
        both.close(got[k], want, noisy)


class Matrices(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 5, bias=False), nn.Linear(5, 3, bias=False)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


def test_muon_is_pytorchs_within_bf16(single):
    lr, momentum, decay = [0.02, 0.01, 0.005], [0.95, 0.8, 0.5], [0.1, 0.0, 0.3]
    for k in range(K):
        torch.manual_seed(k)
        export(Matrices(), single.folder / f"x{k}.pt", single.x)
    tool("fuse", "x0.pt", "x1.pt", "x2.pt", "-o", "x.pt", cwd=single.folder)
    single.run("--loss", "mse", "--optimizer", "muon", "--nesterov", *three(lr=lr, momentum=momentum, weight_decay=decay)[0], model="x.pt",
               epochs=10, out="xt.pt")
    tool("split", "xt.pt", "-o", "xs", "--force", cwd=single.folder)
    for k in range(K):
        torch.manual_seed(k)
        net = Matrices()
        start = state(net)
        optimizer = torch.optim.Muon(net.parameters(), lr[k], decay[k], momentum[k])
        for _ in range(10):
            optimizer.zero_grad()
            nn.functional.mse_loss(net(single.x), single.y).backward()
            optimizer.step()
        got, want = state(torch.jit.load(single.folder / "xs" / f"x{k}.pt")), state(net)
        for name in want:
            moved = float((want[name] - start[name]).abs().max())
            assert float((got[name] - want[name]).abs().max()) <= 0.03 * moved, name


def by_hand(kind, p, g, moments, step, v):
    """One update of LION, LAMB or LARS as their papers (and timm) have it."""
    if kind == "lion":
        p.mul_(1 - v["lr"] * v["weight_decay"])
        p.sub_(v["lr"] * torch.sign(moments[0] * v["betas"][0] + g * (1 - v["betas"][0])))
        moments[0].mul_(v["betas"][1]).add_(g * (1 - v["betas"][1]))
    elif kind == "lamb":
        (a, b), decay = v["betas"], v["weight_decay"]
        moments[0].mul_(a).add_(g * (1 - a))
        moments[1].mul_(b).add_(g * g * (1 - b))
        move = moments[0] / (1 - a ** step) / ((moments[1] / (1 - b ** step)).sqrt() + v["eps"]) + decay * p
        trust = float(p.norm() / move.norm()) if decay else 1.0
        p.sub_(v["lr"] * trust * move)
    else:
        if v["weight_decay"]:
            trust = v["trust_coeff"] * p.norm() / (g.norm() + p.norm() * v["weight_decay"] + v["eps"])
            g = (g + v["weight_decay"] * p) * trust
        moments[0].copy_(g if step == 1 else moments[0] * v["momentum"] + g * (1 - v["dampening"]))
        p.sub_(v["lr"] * (moments[0] if v["momentum"] else g))


class ByHand(torch.optim.Optimizer):
    def __init__(self, parameters, kind, values):
        super().__init__(parameters, {"lr": values["lr"]})
        self.kind, self.values = kind, values

    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            own = self.state[p]
            own["step"] = own.get("step", 0) + 1
            moments = own.setdefault("moments", [torch.zeros_like(p), torch.zeros_like(p)])
            by_hand(self.kind, p, p.grad, moments, own["step"], self.values)


BY_HAND = {
    "lion": dict(lr=[0.001, 0.002, 0.003], betas=BETAS, weight_decay=[0.01, 0.0, 0.1]),
    "lamb": dict(lr=[0.01, 0.02, 0.03], betas=BETAS, eps=[1e-6, 1e-5, 1e-4], weight_decay=[0.01, 0.0, 0.1]),
    "lars": dict(lr=[0.5, 1.0, 2.0], momentum=[0.9, 0.0, 0.5], dampening=[0.0, 0.1, 0.2], weight_decay=[0.01, 0.0, 0.1],
                 trust_coeff=[0.01, 0.1, 0.02], eps=[1e-8, 1e-6, 1e-4]),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_optimizers_that_pytorch_does_not_have(both, name):
    options, each = three(**BY_HAND[name])
    both.run("--loss", "mse", "--optimizer", name, *options, epochs=50)
    got = both.members()
    for k in range(K):
        want, noisy = (eager(both, k, lambda net: ByHand(net.parameters(), name, each[k]), 50, noise=noise)[0]
                       for noise in (False, True))
        both.close(got[k], want, noisy)


def test_groups_of_parameters(single):
    (single.folder / "groups.csv").write_text("pattern,weight_decay,lr\n*.bias,0,\nlast.*,0.2,0.01;0.02;0.03\n")
    single.run("--loss", "mse", "--optimizer", "adamw", "--lr", "0.05,0.02,0.01", "--weight-decay", "0.3,0.1,0.2", "--param-groups",
               "groups.csv", "--lr-schedule", "exponential:gamma=0.9")
    got = single.members()
    for k in range(K):
        lr, decay, last = [0.05, 0.02, 0.01][k], [0.3, 0.1, 0.2][k], [0.01, 0.02, 0.03][k]

        def groups(net):
            bare = [p for n, p in net.named_parameters() if n.endswith("bias")]
            return torch.optim.AdamW([{"params": [net.first.weight]}, {"params": bare, "weight_decay": 0},
                                      {"params": [net.last.weight], "weight_decay": 0.2, "lr": last}], lr=lr, weight_decay=decay)

        want, _ = eager(single, k, groups, 30, lambda o: schedulers.ExponentialLR(o, 0.9))
        single.close(got[k], want)


def test_moving_averages_are_those_of_pytorch(single):
    single.run("--loss", "mse", "--optimizer", "sgd", "--lr", "0.1", "--ema", "0.9,0.5,0.99")
    got = single.members()
    for k, decay in enumerate((0.9, 0.5, 0.99)):
        means = {}

        def after(net):
            if not means:
                means["net"] = torch.optim.swa_utils.AveragedModel(net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(decay))
            means["net"].update_parameters(net)

        eager(single, k, lambda net: torch.optim.SGD(net.parameters(), 0.1), 30, after=after)
        single.close(got[k], state(means["net"].module))


# --- data per member -----------------------------------------------------------------------------------------------------


def solo(case, k, *options, **more):
    case.run("--loss", "mse", "--optimizer", "adam", "--lr", LRS[k], *options, out="solo.pt", model=f"m{k}.pt", **more)
    return state(torch.jit.load(case.folder / "solo.pt"))


def test_each_member_has_its_own_rows_epochs_and_batches(single):
    subsets = [[0, 1, 2, 3, 4, 5, 6], [11, 3, 3, 7, 8], list(range(12))]
    (single.folder / "rows.json").write_text(json.dumps(subsets))
    tool("run", "fused.pt", "--data", "d.npz", "--batch-size", "3,2,2", "--epochs", "3,5,2", "--quiet", "-o", "t.pt", "--loss", "mse",
        "--optimizer", "adam", "--lr", ",".join(map(str, LRS)), "--subset", "rows.json", cwd=single.folder)
    got = single.members()
    for k, (batch, epochs) in enumerate(((3, 3), (2, 5), (2, 2))):
        (single.folder / "row.json").write_text(json.dumps([subsets[k]]))
        tool("run", f"m{k}.pt", "--data", "d.npz", "--batch-size", batch, "--epochs", epochs, "--quiet", "-o", "solo.pt", "--loss", "mse",
             "--optimizer", "adam", "--lr", LRS[k], "--subset", "row.json", cwd=single.folder)
        single.close(got[k], state(torch.jit.load(single.folder / "solo.pt")))


def test_bootstraps_differ_and_do_not_depend_on_company(single):
    options = ["--data", "d.npz", "--bootstrap", "--epochs", "3", "--batch-size", "4", "--quiet", "--loss", "mse", "--optimizer", "adam"]
    tool("run", "fused.pt", *options, "--lr", ",".join(map(str, LRS)), "-o", "t.pt", cwd=single.folder)
    got = single.members()
    tool("run", "m1.pt", *options, "--lr", LRS[1], "-o", "solo.pt", cwd=single.folder)
    single.close(got[1], state(torch.jit.load(single.folder / "solo.pt")))


def test_folds_are_scored_on_what_they_do_not_train_on(single):
    done = tool("run", "fused.pt", "--data", "d.npz", "--folds", "3", "--epochs", "1", "--batch-size", "4", "--loss", "mse", "--optimizer",
                "sgd", "--lr", "0", "-o", "t.pt", "--json", cwd=single.folder)
    rows = json.loads(done.stdout)["members"]
    for k in range(K):
        with torch.no_grad():
            each = nn.functional.mse_loss(make(k)(single.x), single.y, reduction="none").mean(1)
        # lr 0: the mean over all rows is the mean of the part (4 rows) and of the others (8)
        assert (8 * rows[k]["train_loss"] + 4 * rows[k]["val_loss"]) / 12 == pytest.approx(float(each.mean()), rel=1e-4)
    # Copies of one member: the parts are disjoint and make up the whole.
    tool("fuse", "m0.pt", "--replicate", "3", "-o", "copies.pt", cwd=single.folder)
    done = tool("run", "copies.pt", "--data", "d.npz", "--folds", "3", "--epochs", "1", "--batch-size", "4", "--loss", "mse", "--optimizer",
                "sgd", "--lr", "0", "-o", "t.pt", "--json", cwd=single.folder)
    parts = [row["val_loss"] for row in json.loads(done.stdout)["members"]]
    with torch.no_grad():
        whole = float(nn.functional.mse_loss(make(0)(single.x), single.y))
    assert sum(parts) / 3 == pytest.approx(whole, rel=1e-4) and len(set(parts)) == 3


# --- isolation -----------------------------------------------------------------------------------------------------------


def bytes_of(members, k):
    return {name: tensor.numpy().tobytes() for name, tensor in members[k].items()}


@pytest.mark.parametrize("how", ["freeze", "skip"])
def test_a_member_that_diverges_moves_no_other_bit(single, how):
    x = single.x.repeat(K, 2, 1).numpy()
    y = single.y.repeat(K, 2, 1).numpy()
    np.savez(single.folder / "stacked.npz", x=x, y=y)
    x[1, 10] = 3e38
    y[1, 10] = -3e38
    np.savez(single.folder / "bad.npz", x=x, y=y)
    options = ["--inputs", "stacked", "--epochs", "2", "--batch-size", "4", "--shuffle", "none", "--quiet", "--loss", "mse", "--optimizer",
               "adamw", "--lr", ",".join(map(str, LRS)), "--on-nan", how]
    tool("run", "fused.pt", "--data", "stacked.npz", *options, "-o", "good.pt", cwd=single.folder)
    done = tool("run", "fused.pt", "--data", "bad.npz", *options, "-o", "bad.pt", cwd=single.folder)
    assert "member 1 ('m1') is not finite in epoch 1, step 3" in done.stderr
    good, bad = single.members("good.pt"), single.members("bad.pt")
    for k in (0, 2):
        assert bytes_of(good, k) == bytes_of(bad, k)
    assert all(torch.isfinite(tensor).all() for tensor in bad[1].values())
    if how == "freeze":  # two steps, then nothing moves
        np.savez(single.folder / "two.npz", x=x[:, :8], y=y[:, :8])
        options[options.index("--epochs") + 1] = "1"
        tool("run", "fused.pt", "--data", "two.npz", *options, "-o", "two.pt", cwd=single.folder)
        assert bytes_of(single.members("two.pt"), 1) == bytes_of(bad, 1)


def test_by_default_a_member_goes_on_as_in_pytorch(single):
    y = single.y.repeat(K, 1, 1).numpy()
    y[1, 5] = np.nan
    np.savez(single.folder / "nan.npz", x=single.x.repeat(K, 1, 1).numpy(), y=y)
    done = tool("run", "fused.pt", "--data", "nan.npz", "--inputs", "stacked", "--epochs", "2", "--batch-size", "4", "--shuffle", "none", "--quiet",
                "--loss", "mse", "--optimizer", "sgd", "--lr", "0.1", "-o", "t.pt", cwd=single.folder)
    assert "the loss of member 1 ('m1') is not finite in epoch 1, step 2\n" in done.stderr
    members = single.members()
    assert all(torch.isnan(tensor).all() for tensor in members[1].values())
    assert all(torch.isfinite(tensor).all() for k in (0, 2) for tensor in members[k].values())


def test_on_nan_stop_ends_the_run(single):
    arrays = {"x": single.x.numpy(), "y": single.y.numpy().copy()}
    arrays["y"][7] = 3e38
    np.savez(single.folder / "bad.npz", **arrays)
    done = tool("run", "fused.pt", "--data", "bad.npz", "--loss", "mse", "--optimizer", "sgd", "--lr", "0.1", "--batch-size", "4", "--shuffle",
                "none", "-o", "none.pt", "--quiet", "--on-nan", "stop", ok=False, cwd=single.folder)
    assert done.returncode == 1 and "is not finite in epoch 1, step 2" in done.stderr
    assert not (single.folder / "none.pt").exists()


# --- stopping and going on -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restore", ["best", "last"])
def test_early_stopping_ends_each_member_by_itself(single, restore):
    rng = np.random.RandomState(3)
    np.savez(single.folder / "v.npz", x=rng.randn(9, 3).astype("f4"), y=rng.randn(9, 3).astype("f4"))
    lrs = [0.3, 0.05, 0.001]
    single.run("--loss", "mse", "--optimizer", "sgd", "--lr", ",".join(map(str, lrs)), "--val", "v.npz", "--patience", "3,2,4", "--min-delta",
               "0,0.001,0", "--restore", restore, "--json", epochs=40)
    report = json.loads(single.run("--loss", "mse", "--optimizer", "sgd", "--lr", ",".join(map(str, lrs)), "--val", "v.npz", "--patience",
                                   "3,2,4", "--min-delta", "0,0.001,0", "--restore", restore, "--json", epochs=40).stdout)["members"]
    got = single.members()
    v = np.load(single.folder / "v.npz")
    for k, patience, delta in zip(range(K), (3, 2, 4), (0, 0.001, 0)):
        net = make(k)
        optimizer = torch.optim.SGD(net.parameters(), lrs[k])
        best, reference, bad, kept, best_epoch = None, None, 0, None, 0
        for epoch in range(1, 41):
            optimizer.zero_grad()
            nn.functional.mse_loss(net(single.x), single.y).backward()
            optimizer.step()
            with torch.no_grad():
                value = float(nn.functional.mse_loss(net(torch.from_numpy(v["x"])), torch.from_numpy(v["y"])))
            if best is None or value < best:
                best, kept, best_epoch = value, state(net), epoch
            if reference is None or value < reference - delta:
                reference, bad = value, 0
            else:
                bad += 1
                if bad >= patience:
                    break
        assert report[k]["epochs"] == epoch
        assert report[k].get("best_epoch", 0) == (best_epoch if restore == "best" else 0)
        single.close(got[k], kept if restore == "best" else state(net))


RICH = ["--optimizer", "adam", "--lr", "0.02,0.05,0.1", "--lr-schedule", "cosine@step:T_max=40;reduce_on_plateau:patience=0;step:step_size=2",
        "--val-fraction", "0.25", "--ema", "0.9", "--patience", "3", "--accumulate", "2", "--clip-norm", "0.5", "--loss", "mse"]


def test_resuming_is_bit_equal(single):
    (single.folder / "ck" / "checkpoint.pt").unlink(missing_ok=True)
    base = ["run", "fused.pt", "--data", "d.npz", "--batch-size", "2", "--quiet", *RICH, "--log", "log.jsonl"]
    tool(*base, "--epochs", "9", "-o", "whole.pt", cwd=single.folder)
    tool(*base, "--epochs", "4", "-o", "part.pt", "--checkpoint", "ck", "--checkpoint-every", "2", cwd=single.folder)
    done = tool(*base, "--epochs", "9", "-o", "part.pt", "--checkpoint", "ck", ok=False, cwd=single.folder)
    assert done.returncode == 2 and "holds the checkpoint of another run" in done.stderr
    done = tool(*base, "--epochs", "9", "-o", "part.pt", "--resume", "ck", "--seed", "3", ok=False, cwd=single.folder)
    assert done.returncode == 1 and "--seed is 3, but the checkpointed run had 0" in done.stderr
    tool(*base, "--epochs", "9", "-o", "part.pt", "--resume", "ck", "--checkpoint-every", "2", cwd=single.folder)
    assert (single.folder / "whole.pt").read_bytes() == (single.folder / "part.pt").read_bytes()


@pytest.mark.parametrize("what", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_goes_on_where_it_was(single, what):
    base = [str(BIN / "chorus-run"), "fused.pt", "--data", "d.npz", "--batch-size", "1", "--quiet", *RICH, "--epochs", "400"]
    base[base.index("--patience") + 1] = "1000"
    subprocess.run([*base, "-o", "whole.pt"], cwd=single.folder, check=True, capture_output=True)
    run = [*base, "-o", "cut.pt", "--checkpoint-every", "40"]
    for file in (single.folder / "cut.ckpt" / "checkpoint.pt", single.folder / "cut.pt"):
        file.unlink(missing_ok=True)
    process = subprocess.Popen(run, cwd=single.folder, stderr=subprocess.PIPE, text=True)
    while not (single.folder / "cut.ckpt" / "checkpoint.pt").exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(what)
    message = process.communicate()[1]
    if process.returncode == 0:
        pytest.skip("the run was over before the signal came")
    if what == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 130 and "--resume cut.ckpt" in message
    assert not (single.folder / "cut.pt").exists()
    subprocess.run([*run, "--resume", "cut.ckpt"], cwd=single.folder, check=True, capture_output=True)
    assert (single.folder / "whole.pt").read_bytes() == (single.folder / "cut.pt").read_bytes()
    assert not (single.folder / "cut.ckpt").exists()


@pytest.mark.parametrize("model", ["fused.pt", "m1.pt"])
def test_a_trained_file_keeps_its_optimizer(single, model):
    options = ["--loss", "mse", "--optimizer", "adamw", "--lr", "0.05"]
    single.run(*options, model=model, epochs=7, out="whole.pt")
    single.run(*options, model=model, epochs=4, out="four.pt")
    again = options if model == "m1.pt" else []
    done = single.run(*again, model="four.pt", epochs=3, out="fresh.pt")
    assert "the optimizer's state starts afresh" in done.stderr
    done = single.run(*again, "--keep-optimizer", model="four.pt", epochs=3, out="kept.pt")
    assert "afresh" not in done.stderr
    # A plain member goes on with its own optimizer, and needs no options for it.
    whole = state(torch.jit.load(single.folder / "whole.pt"))
    kept = state(torch.jit.load(single.folder / "kept.pt"))
    parameters = [name for name in whole if not name.startswith("chorus.")]
    assert all(torch.equal(whole[name], kept[name]) for name in parameters)
    fresh = state(torch.jit.load(single.folder / "fresh.pt"))
    assert any(not torch.equal(whole[name], fresh[name]) for name in parameters)


def test_a_split_member_leaves_with_its_optimizer_and_seed(single):
    options = ["--loss", "mse", "--optimizer", "adam", "--lr", ",".join(map(str, LRS))]
    single.run(*options, epochs=4, out="four.pt")
    single.run("--keep-optimizer", model="four.pt", epochs=3, out="seven.pt")
    want = single.members("seven.pt")
    single.members("four.pt")
    for k in range(K):
        single.run("--loss", "mse", "--keep-optimizer", model=f"members/m{k}.pt", epochs=3, out="one.pt")
        single.close(state(torch.jit.load(single.folder / "one.pt")), want[k])


@pytest.mark.parametrize("name", ["sgd", "adam amsgrad", "nadam", "asgd", "adagrad", "rprop"])
def test_a_member_goes_on_in_pytorch_with_its_optimizer(both, name):
    option, make_optimizer, values = OPTIMIZERS[name]
    options, each = three(**values)
    both.run("--loss", "mse", "--optimizer", option, *options, epochs=6, out="six.pt")
    # A fused file that has its optimizer, so that the state is in it.
    tool("split", "six.pt", "-o", "states", "--force", "--optimizer-state", cwd=both.folder)
    for k in range(K):
        net = make(k, both.dtype)
        net.load_state_dict(state(torch.jit.load(both.folder / "states" / f"m{k}.pt")))
        optimizer = make_optimizer(net.parameters(), lr=123.0) if option != "asgd" else make_optimizer(net.parameters())
        optimizer.load_state_dict(torch.load(both.folder / "states" / f"m{k}.optim.pt", weights_only=True))
        for _ in range(6):
            optimizer.zero_grad()
            nn.functional.mse_loss(net(both.x), both.y).backward()
            optimizer.step()
        want, noisy = (eager(both, k, lambda n: make_optimizer(n.parameters(), foreach=False, **each[k]), 12, noise=noise)[0]
                       for noise in (False, True))
        both.close(state(net), want, noisy)


class Swapped(nn.Module):
    def __init__(self, swap):
        super().__init__()
        self.swap, self.a, self.b = swap, nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        a = nn.functional.dropout(self.a(x), 0.5, self.training)
        b = nn.functional.dropout(self.b(x), 0.5, self.training)
        return (b * a if self.swap else a * b) + torch.relu(a)


def test_random_nodes_are_numbered_by_each_member_itself(single):
    for k in range(K):
        torch.manual_seed(k)
        export(Swapped(k == 1), single.folder / f"s{k}.pt", single.x)
    tool("fuse", "s0.pt", "s1.pt", "s2.pt", "-o", "s.pt", cwd=single.folder)
    options = ["--data", "d.npz", "--loss", "mse", "--optimizer", "sgd", "--lr", "0.05", "--epochs", "3", "--batch-size", "4", "--quiet"]
    tool("run", "s.pt", *options, "-o", "st.pt", cwd=single.folder)
    tool("split", "st.pt", "-o", "parts", "--force", cwd=single.folder)
    for k in range(K):
        tool("run", f"s{k}.pt", *options, "-o", "solo.pt", cwd=single.folder)
        single.close(state(torch.jit.load(single.folder / "parts" / f"s{k}.pt")), state(torch.jit.load(single.folder / "solo.pt")))


def test_mixed_precision_is_pytorchs(single):
    single.run("--loss", "mse", "--optimizer", "sgd", "--lr", "0.05", "--amp", "bf16", epochs=10)
    got = single.members()
    for k in range(K):
        net = make(k)
        optimizer = torch.optim.SGD(net.parameters(), 0.05)
        for _ in range(10):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = nn.functional.mse_loss(net(single.x), single.y)
            loss.backward()
            optimizer.step()
        plain, _ = eager(single, k, lambda n: torch.optim.SGD(n.parameters(), 0.05), 10)
        for name, want in state(net).items():
            assert got[k][name].dtype == torch.float32
            assert float((got[k][name] - want).abs().max()) <= 0.01 * float(want.abs().max()), name
        assert different(got[k], plain)


def test_fp16_scales_each_members_loss_by_itself(single):
    """Member 1's gradients overflow at first: its scale halves and its steps are left out, as GradScaler does; nobody else's are."""
    x, y = single.x.repeat(K, 1, 1), single.y.repeat(K, 1, 1)
    np.savez(single.folder / "good.npz", x=x.numpy(), y=y.numpy())
    y[1] *= 30
    np.savez(single.folder / "large.npz", x=x.numpy(), y=y.numpy())
    options = ["--inputs", "stacked", "--epochs", "8", "--batch-size", N, "--shuffle", "none", "--quiet", "--loss", "mse", "--optimizer", "sgd",
               "--lr", "0.001", "--amp", "fp16"]
    for name in ("good", "large"):
        tool("run", "fused.pt", "--data", f"{name}.npz", *options, "-o", f"{name}.pt", cwd=single.folder)
    good, large = single.members("good.pt"), single.members("large.pt")
    for k in (0, 2):
        assert bytes_of(good, k) == bytes_of(large, k)
    for k in range(K):
        net, start = make(k), state(make(k))
        optimizer, scaler, skipped = torch.optim.SGD(net.parameters(), 0.001), torch.amp.GradScaler("cpu"), 0
        for _ in range(8):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                loss = nn.functional.mse_loss(net(single.x), y[k])
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            before = scaler.get_scale()
            scaler.update()
            skipped += scaler.get_scale() < before
        assert (skipped > 0) == (k == 1), f"member {k} leaves out {skipped} updates"
        for name, want in state(net).items():
            moved = float((want - start[name]).abs().max())
            assert float((large[k][name] - want).abs().max()) <= 0.02 * moved, f"member {k} {name}"


def different(a, b):
    return any(not torch.equal(a[name], b[name]) for name in a)


FAULTS = {
    "schedule_late": lambda case: test_schedules_are_those_of_pytorch_at_every_step(case, "step"),
    "kernel_of_member_zero": lambda case: test_optimizers_are_those_of_pytorch(case, "adam"),
    "lr_of_member_zero": lambda case: test_optimizers_that_pytorch_does_not_have(case, "lars"),
    "rows_of_member_zero": lambda case: test_folds_are_scored_on_what_they_do_not_train_on(case),
    "nan_goes_on": lambda case: test_a_member_that_diverges_moves_no_other_bit(case, "freeze"),
    "best_of_member_zero": lambda case: test_early_stopping_ends_each_member_by_itself(case, "best"),
    "resume_forgets": lambda case: test_resuming_is_bit_equal(case),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_turn_these_tests_red(single, monkeypatch, fault):
    monkeypatch.setenv("CHORUS_FAULT", fault)
    with pytest.raises(AssertionError):
        FAULTS[fault](single)
