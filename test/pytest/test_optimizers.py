"""Optimizers with three values of every hyperparameter, groups of parameters and averages, against torch.optim."""
import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler as schedulers

from chorus_testing import assert_close, export, state, tool
from training_case import K, LRS, eager, prepare, three, turns_red


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


@pytest.mark.parametrize("nesterov,match_rms_adamw", [(True, False), (False, True)])
def test_muon_in_double_precision_is_pytorchs(tmp_path, nesterov, match_rms_adamw):
    """In fp64 the gradients of both are so close that bf16 rounds them alike: what is left is the optimizer itself. (In fp32 one flipped
    bit of bf16 is 0.4 %, and the iteration raises what is small in a gradient: runs drift apart by percents, also eager ones.)"""
    case = prepare(tmp_path, torch.float64)
    values = dict(lr=[0.02, 0.01, 0.005], momentum=[0.95, 0.8, 0.3], weight_decay=[0.1, 0.0, 0.3], eps=[1e-7, 1e-3, 0.5])
    options, each = three(**values)
    for k in range(K):
        torch.manual_seed(k)
        export(Matrices().double(), case.folder / f"m{k}.pt", case.x)
    case.fuse("x.pt")
    case.run("--loss", "mse", "--optimizer", "muon", *options, *["--nesterov"] * nesterov, *["--match-rms-adamw"] * match_rms_adamw,
             model="x.pt", epochs=20)
    got = case.members()
    for k in range(K):
        torch.manual_seed(k)
        net = Matrices().double()
        optimizer = torch.optim.Muon(net.parameters(), nesterov=nesterov, adjust_lr_fn="match_rms_adamw" if match_rms_adamw else None, **each[k])
        for _ in range(20):
            optimizer.zero_grad()
            nn.functional.mse_loss(net(case.x), case.y).backward()
            optimizer.step()
        assert_close(got[k], state(net), 1e-4, what=f"member {k}")  # a sum in another order may still flip a bit of bf16 now and then


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


def test_lbfgs_is_refused_by_name(single):
    done = single.run("--loss", "mse", "--optimizer", "lbfgs", out="none.pt", ok=False)
    assert done.returncode == 3 and done.stderr == (
        "unsupported: the optimizer 'lbfgs': it evaluates the loss several times in a step, how often is each member's own, so members have "
        "no step in common\n  help: train with another one, then let torch.optim.LBFGS finish each member that chorus-split writes\n")


FAULTS = {
    "kernel_of_member_zero": lambda case: test_optimizers_are_those_of_pytorch(case, "adam"),
    "lr_of_member_zero": lambda case: test_optimizers_that_pytorch_does_not_have(case, "lars"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_turn_these_tests_red(single, monkeypatch, fault):
    turns_red(monkeypatch, fault, FAULTS[fault], single)
