"""Members whose numbers overflow or are none: loss scales as GradScaler's, updates left out, members frozen; against eager PyTorch."""
import copy
import json
import shutil

import numpy as np
import pytest
import torch
from torch import nn

import eager_runs
from chorus_testing import assert_close, export, state, tool
from training_case import K, N, make, prepare


def checkpointed(folder):
    text = torch.jit.load(folder / "checkpoint.pt").chorus.json_text
    return json.loads(text)["info"]["run"]


@pytest.mark.parametrize("accumulate,epochs", [(1, 690), (2, 30)])
def test_loss_scales_are_those_of_gradscaler(tmp_path, accumulate, epochs):
    """Over 2,000 updates, after which a scale grows; each member overflows by itself, and batches are divided before they are scaled."""
    case = prepare(tmp_path, torch.float32)
    y = torch.stack([case.y, 40 * case.y, 7 * case.y])
    np.savez(tmp_path / "s.npz", x=case.x.repeat(K, 1, 1).numpy(), y=y.numpy())
    tool("run", "fused.pt", "--data", "s.npz", "--inputs", "stacked", "--batch-size", 4, "--epochs", epochs, "--shuffle", "none", "--quiet",
         "-o", "t.pt", "--loss", "mse", "--optimizer", "sgd", "--lr", "0.001", "--momentum", "0.5", "--clip-norm", "1", "--amp", "fp16",
         "--accumulate", accumulate, "--checkpoint", "ck", cwd=tmp_path)
    got, run, skips = case.members(), checkpointed(tmp_path / "ck"), []
    for k in range(K):
        net = make(k)
        start, scaler, optimizer = state(net), torch.amp.GradScaler("cpu"), torch.optim.SGD(net.parameters(), 0.001, momentum=0.5)
        skips.append(0)
        for _ in range(epochs):
            for begin in range(0, 3, accumulate):
                cycle = range(begin, min(3, begin + accumulate))
                optimizer.zero_grad()
                for i in cycle:
                    with torch.autocast("cpu", torch.float16):
                        loss = nn.functional.mse_loss(net(case.x[4 * i:4 * i + 4]), y[k, 4 * i:4 * i + 4])
                    scaler.scale(loss / len(cycle)).backward()
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                scaler.step(optimizer)
                before = scaler.get_scale()
                scaler.update()
                skips[k] += scaler.get_scale() < before
        assert (run["scale"][k], run["growth"][k]) == (scaler.get_scale(), scaler._get_growth_tracker()), f"member {k}"
        for name, want in state(net).items():
            moved = float((want - start[name]).abs().max())
            assert float((got[k][name] - want).abs().max()) <= 0.005 * moved, f"member {k} {name}"
    assert len(set(skips)) == K, skips


LRS = [0.05, 0.1, 0.2]


def batches(k, x, y, net, how, decay, epochs):
    """Micro-batches of 4 rows, two per update; returns the averages."""
    optimizer = torch.optim.SGD(net.parameters(), LRS[k], momentum=0.9, weight_decay=0.1)
    plan, mean = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5), None
    for _ in range(epochs):
        for cycle in ((0, 4), (8,)):
            optimizer.zero_grad()
            whole = True
            for i in cycle:
                before = copy.deepcopy(net.state_dict())
                loss = nn.functional.mse_loss(net(x[i:i + 4]), y[i:i + 4])
                if not torch.isfinite(loss):
                    net.load_state_dict(before)
                    if how == "freeze":
                        return mean
                    whole = False
                    continue
                (loss / len(cycle)).backward()
            if whole:
                optimizer.step()
                now = {n: p.detach().clone() for n, p in net.named_parameters()}
                mean = now if mean is None else {n: torch.lerp(mean[n], now[n], 1 - decay) for n in now}
            plan.step()
    return mean


@pytest.mark.parametrize("row", [1, 6, 9])
@pytest.mark.parametrize("how", ["skip", "freeze"])
def test_a_bad_row_costs_its_member_what_it_costs_in_pytorch(tmp_path, how, row):
    """In the first micro-batch of a cycle, in the second, in a short cycle; momentum, decay, averages and running statistics included."""
    decays, generator = [0.5, 0.7, 0.9], torch.Generator().manual_seed(1)
    x, y = (torch.randn(K, N, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    for k in range(K):
        export(eager_runs.build("normed", k), tmp_path / f"m{k}.pt", x[0])
    tool("fuse", "m0.pt", "m1.pt", "m2.pt", "-o", "f.pt", "--no-verify", cwd=tmp_path)
    command = ["run", "f.pt", "--data", "d.npz", "--inputs", "stacked", "--batch-size", 4, "--accumulate", 2, "--epochs", 4, "--shuffle", "none",
               "--quiet", "--loss", "mse", "--optimizer", "sgd", "--lr", ",".join(map(str, LRS)), "--momentum", "0.9", "--weight-decay", "0.1",
               "--lr-schedule", "step@step:step_size=3,gamma=0.5", "--ema", ",".join(map(str, decays)), "--on-nan", how]
    bad = y.clone()
    bad[1, row] = float("nan")
    parts = {}
    for name, data in (("good", y), ("bad", bad)):
        np.savez(tmp_path / "d.npz", x=x.numpy(), y=data.numpy())
        tool(*command, "-o", f"{name}.pt", cwd=tmp_path)
        shutil.rmtree(tmp_path / name, ignore_errors=True)
        tool("split", f"{name}.pt", "-o", name, cwd=tmp_path)
        parts[name] = [state(torch.jit.load(tmp_path / name / f"m{k}.pt")) for k in range(K)]
    for k in range(K):
        net = eager_runs.build("normed", k)
        mean = batches(k, x[k], bad[k], net, how, decays[k], 4)
        assert_close(parts["bad"][k], {**state(net), **(mean or {})}, 1e-9, what=f"member {k}")
        assert k == 1 or all(torch.equal(t, parts["good"][k][n]) for n, t in parts["bad"][k].items()), f"member {k} notices"
