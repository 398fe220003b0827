"""Schedules: the rate of each member at every step, against torch.optim.lr_scheduler."""
import json

import numpy as np
import pytest
import torch
from torch.optim import lr_scheduler as schedulers

from chorus_testing import tool
from training_case import K, LRS, N, eager, make, turns_red


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


@pytest.mark.parametrize("monitor,modes", [("val_accuracy", ["max", "max", "min"]), ("val_loss", ["min", "max", "min"])])
def test_a_plateau_watches_as_the_value_improves(single, monitor, modes):
    """The mode is that of the monitored value; where it is given, it is the given one, as in PyTorch."""
    labels = torch.tensor([0, 1, 2, 2, 1, 0, 0, 1, 2, 1, 0, 2])
    np.savez(single.folder / "c.npz", x=single.x.numpy(), y=labels.numpy())
    texts = ["reduce_on_plateau:patience=1", f"reduce_on_plateau:patience=0,factor=0.5,mode={modes[1]}", f"reduce_on_plateau:patience=1,mode={modes[2]}"]
    tool("run", "fused.pt", "--data", "c.npz", "--val", "c.npz", "--batch-size", N, "--epochs", 15, "--shuffle", "none", "--quiet", "-o", "p.pt",
         "--loss", "cross_entropy", "--optimizer", "sgd", "--lr", "0.5,0.3,0.4", "--monitor", monitor, "--lr-schedule", ";".join(texts), "--log",
         "log.jsonl", cwd=single.folder)
    lines = [json.loads(line) for line in (single.folder / "log.jsonl").read_text().splitlines()]
    for k in range(K):
        net, rates = make(k), []
        optimizer = torch.optim.SGD(net.parameters(), [0.5, 0.3, 0.4][k])
        plan = schedulers.ReduceLROnPlateau(optimizer, modes[k], patience=[1, 0, 1][k], factor=[0.1, 0.5, 0.1][k])
        for _ in range(15):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(single.x), labels).backward()
            optimizer.step()
            with torch.no_grad():
                out = net(single.x)
                loss = float(torch.nn.functional.cross_entropy(out, labels))
                plan.step(loss if monitor == "val_loss" else float((out.argmax(1) == labels).double().mean()))
        np.testing.assert_allclose([line["lr"][k] for line in lines], rates, rtol=1e-9)


def test_a_plateau_that_begins_with_nan_goes_on_as_in_pytorch(single):
    """A first value that is no number is not the best one for ever."""
    y = single.y.clone()
    y[3] = float("nan")
    np.savez(single.folder / "nan.npz", x=single.x.numpy(), y=y.numpy())
    tool("run", "fused.pt", "--data", "d.npz", "--val", "nan.npz", "--batch-size", N, "--epochs", 6, "--shuffle", "none", "--quiet", "-o", "p.pt",
         "--loss", "mse", "--optimizer", "sgd", "--lr", "0.5", "--lr-schedule", "reduce_on_plateau:patience=1", "--log", "log.jsonl",
         cwd=single.folder)
    optimizer = torch.optim.SGD(make(0).parameters(), 0.5)
    plan, rates = schedulers.ReduceLROnPlateau(optimizer, patience=1), []
    for _ in range(6):
        rates.append(optimizer.param_groups[0]["lr"])
        plan.step(float("nan"))
    lines = [json.loads(line) for line in (single.folder / "log.jsonl").read_text().splitlines()]
    np.testing.assert_allclose([line["lr"][0] for line in lines], rates, rtol=1e-9)


def test_a_cycle_that_only_rises_ends_with_numbers(single):
    single.run("--loss", "mse", "--optimizer", "sgd", "--lr", "1", "--lr-schedule", "one_cycle:max_lr=0.1,total_steps=10,pct_start=1", "--log",
               "log.jsonl", epochs=12)
    got = [json.loads(line)["lr"][1] for line in (single.folder / "log.jsonl").read_text().splitlines()]
    optimizer = torch.optim.SGD(make(0).parameters(), 1.0, momentum=0.9)
    plan, want = schedulers.OneCycleLR(optimizer, 0.1, 10, pct_start=1.0), []
    for i in range(10):
        want.append(optimizer.param_groups[0]["lr"])
        if i < 9:  # PyTorch divides by zero after the last one
            optimizer.step()
            plan.step()
    np.testing.assert_allclose(got[:10], want, rtol=1e-9)
    assert got[10] == got[11] and 0 < got[10] < 1e-5


def test_a_table_of_rates(single):
    (single.folder / "rates.txt").write_text("0.1 0.05\n0.02\n")
    single.run("--loss", "mse", "--optimizer", "sgd", "--lr", "1", "--lr-schedule", "table:file=rates.txt", "--log", "log.jsonl", epochs=5)
    lines = [json.loads(line) for line in (single.folder / "log.jsonl").read_text().splitlines()]
    assert [line["lr"][1] for line in lines] == [0.1, 0.05, 0.02, 0.02, 0.02]


def test_a_schedule_that_is_late_turns_these_tests_red(single, monkeypatch):
    turns_red(monkeypatch, "schedule_late", test_schedules_are_those_of_pytorch_at_every_step, single, "step")
