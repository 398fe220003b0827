"""Averages of weights and batch norms measured anew, per member, against torch.optim.swa_utils."""
import json

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import swa_utils

from chorus_testing import assert_close, export, nudged, state, tool
from training_case import turns_red

K, N, BATCH, EPOCHS = 3, 18, 6, 6
LRS = [0.05, 0.1, 0.02]
STARTS = [2, 4, 6]
DECAYS = [0.9, 0.5, 0.99]


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 5),
                         nn.BatchNorm1d(5, momentum=0.3), nn.Linear(5, 3))


def make(k):
    torch.manual_seed(k)
    return Net()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("averages")
    rng = np.random.RandomState(0)
    np.savez(folder / "d.npz", x=rng.randn(N, 2, 4, 4).astype("f4"), y=rng.randn(N, 3).astype("f4"))
    np.savez(folder / "v.npz", x=rng.randn(7, 2, 4, 4).astype("f4"), y=rng.randn(7, 3).astype("f4"))
    for k in range(K):
        export(make(k), folder / f"m{k}.pt", torch.zeros(4, 2, 4, 4))
    tool("fuse", "m0.pt", "m1.pt", "m2.pt", "-o", "f.pt", "--loss", "mse", "--optimizer", "sgd", "--momentum", "0.9", "--lr",
         ",".join(map(str, LRS)), "--no-verify", cwd=folder)
    return folder


def run(folder, *options, model="f.pt", out="t.pt", epochs=EPOCHS, batch=BATCH, ok=True):
    return tool("run", model, "--data", "d.npz", "--batch-size", batch, "--epochs", epochs, "--shuffle", "none", "--quiet", "-o", out,
                *options, cwd=folder, ok=ok)


def members(folder, file="t.pt"):
    tool("split", file, "-o", "parts", "--force", cwd=folder)
    return [state(torch.jit.load(folder / "parts" / f"m{k}.pt")) for k in range(K)]


def batches(folder, size=BATCH):
    data = np.load(folder / "d.npz")
    x, y = torch.from_numpy(data["x"]), torch.from_numpy(data["y"])
    return [(x[i:i + size], y[i:i + size]) for i in range(0, N, size)]


def eagerly(folder, k, average=None, per_step=False, start=1, batch=BATCH, remeasure=True, epochs=EPOCHS, noise=False):
    """What PyTorch's own loop gives: the averaged (or last) network."""
    net, kept = make(k), None
    if noise:
        nudged(net)
    optimizer = torch.optim.SGD(net.parameters(), LRS[k], momentum=0.9)
    averaged = average(net) if average else None
    for epoch in range(1, epochs + 1):
        for x, y in batches(folder, batch):
            optimizer.zero_grad()
            nn.functional.mse_loss(net(x), y).backward()
            optimizer.step()
            if per_step:
                averaged.update_parameters(net)
        if averaged is not None and not per_step and epoch >= start:
            averaged.update_parameters(net)
    kept = net if averaged is None else averaged.module
    if averaged is not None:  # buffers are not averaged: those of the last step
        for own, other in zip(kept.buffers(), net.buffers()):
            own.copy_(other)
    if remeasure:
        swa_utils.update_bn(batches(folder, batch), kept)
    return kept


def ema(decay):
    return lambda net: swa_utils.AveragedModel(net, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(decay))


def test_swa_is_pytorchs(folder):
    run(folder, "--swa", ",".join(map(str, STARTS)))
    for k, got in enumerate(members(folder)):
        assert_close(got, state(eagerly(folder, k, swa_utils.AveragedModel, start=STARTS[k])), 1e-5)


def test_averages_per_step_with_batch_norm(folder):
    run(folder, "--ema", ",".join(map(str, DECAYS)), "--recalibrate")
    measured = members(folder)
    run(folder, "--ema", ",".join(map(str, DECAYS)))
    for k, got in enumerate(members(folder)):
        assert_close(got, state(eagerly(folder, k, ema(DECAYS[k]), per_step=True, remeasure=False)), 1e-5)
        assert_close(measured[k], state(eagerly(folder, k, ema(DECAYS[k]), per_step=True)), 1e-5)


def test_recalibration_alone_with_batches_of_each_member(folder):
    sizes = [6, 4, 9]
    run(folder, "--recalibrate", batch=",".join(map(str, sizes)))
    for k, got in enumerate(members(folder)):
        want, noisy = (state(eagerly(folder, k, batch=sizes[k], noise=noise)) for noise in (False, True))
        assert_close(got, want, 1e-5, noisy)
        assert got["1.num_batches_tracked"] == -(-N // sizes[k])


def test_what_is_written_is_what_is_scored(folder):
    done = json.loads(run(folder, "--swa", "3", "--val", "v.npz", "--json").stdout)["members"]
    again = json.loads(tool("run", "t.pt", "--data", "v.npz", "--evaluate", "--json", cwd=folder).stdout)["members"]
    for k in range(K):
        assert done[k]["val_loss"] == pytest.approx(again[k]["loss"], rel=1e-6)


def test_resuming_is_bit_equal(folder):
    options = ["--swa", "2,3,1", "--val", "v.npz"]
    run(folder, *options, out="whole.pt")
    run(folder, *options, "--checkpoint", "ck", epochs=4, out="part.pt")
    run(folder, *options, "--resume", "ck", out="part.pt")
    assert (folder / "whole.pt").read_bytes() == (folder / "part.pt").read_bytes()
    (folder / "ck" / "checkpoint.pt").unlink()


@pytest.mark.parametrize("options", [["--swa", "2"], ["--ema", "0.9", "--recalibrate"]], ids=" ".join)
def test_a_member_alone_is_its_slice(folder, options):
    run(folder, *options)
    got = members(folder)
    for k in range(K):
        run(folder, *options, "--loss", "mse", "--optimizer", "sgd", "--momentum", "0.9", "--lr", LRS[k], model=f"m{k}.pt", out="solo.pt")
        assert_close(state(torch.jit.load(folder / "solo.pt")), got[k], 1e-5)


@pytest.mark.parametrize("options", [["--swa", "2"], ["--ema", "0.9"]], ids=" ".join)
@pytest.mark.parametrize("unfused", [False, True], ids=["fused", "unfused"])
def test_averages_go_on_in_a_second_run(folder, options, unfused):
    """Kept: trained weights, moments and averages are those of one long run (statistics of batch norms apart, which were measured)."""
    options = [*options, *(["--unfused"] if unfused else [])]
    run(folder, *options, out="whole.pt", epochs=5)
    run(folder, *options, out="first.pt", epochs=3)
    run(folder, *["--swa" if o == "--swa" else "1" if o == "2" else o for o in options], "--keep-optimizer", model="first.pt", out="second.pt",
        epochs=2)
    whole, second = members(folder, "whole.pt"), members(folder, "second.pt")
    for k in range(K):
        for name in whole[k]:
            assert torch.equal(whole[k][name], second[k][name]), name


def test_members_that_fail_are_left_alone(folder):
    data = np.load(folder / "d.npz")
    y = np.repeat(data["y"][None], K, 0)
    np.savez(folder / "s.npz", x=np.repeat(data["x"][None], K, 0), y=y)
    y[1, 8] = np.nan
    np.savez(folder / "bad.npz", x=np.repeat(data["x"][None], K, 0), y=y)
    options = ["--inputs", "stacked", "--on-nan", "freeze", "--epochs", "3", "--batch-size", BATCH, "--shuffle", "none", "--quiet", "--swa", "1"]
    tool("run", "f.pt", "--data", "s.npz", *options, "-o", "good.pt", cwd=folder)
    done = tool("run", "f.pt", "--data", "bad.npz", *options, "-o", "bad.pt", cwd=folder)
    assert "member 1 ('m1') ended before epoch 1: nothing is averaged" in done.stderr
    good, bad = members(folder, "good.pt"), members(folder, "bad.pt")
    for k in (0, 2):
        assert all(torch.equal(good[k][name], bad[k][name]) for name in good[k])
    assert bad[1]["1.num_batches_tracked"] == 1


@pytest.mark.parametrize("options,code,message", [
    (["--swa", "7"], 1, "--swa begins at epoch 7, but there are 6 epochs"),
    (["--swa", "0"], 1, "--swa is 0, but has to be at least 1"),
    (["--swa", "2", "--ema", "0.9"], 2, "--ema and --swa exclude each other"),
    (["--swa", "2", "--restore", "best"], 2, "--restore best takes one of them"),
], ids=str)
def test_wrong_command_lines(folder, options, code, message):
    done = run(folder, *options, out="none.pt", ok=False)
    assert done.returncode == code and message in done.stderr, done.stderr


@pytest.mark.parametrize("kind", ["trace", "script"])
@pytest.mark.parametrize("momenta", [(None, None, None), (0.1, 0.3, 0.5)], ids=str)
def test_momenta_of_all_kinds(folder, tmp_path, momenta, kind):
    """Numbers that differ between members, and None, whose average a script works out behind the norm."""
    x = batches(folder)[0][0]
    for k in range(K):
        torch.manual_seed(k)
        export(nn.Sequential(nn.BatchNorm2d(2, momentum=momenta[k]), nn.Flatten(), nn.Linear(32, 3)), tmp_path / f"m{k}.pt", x, kind)
    tool("fuse", "m0.pt", "m1.pt", "m2.pt", "-o", "f.pt", "--loss", "mse", "--optimizer", "sgd", "--lr", "0.05", *(
        ["--input", "f32[N,2,4,4]"] if kind == "script" else []), cwd=tmp_path)
    tool("run", "f.pt", "--data", folder / "d.npz", "--batch-size", BATCH, "--shuffle", "none", "--recalibrate", "-o", "t.pt", cwd=tmp_path)
    for k, got in enumerate(members(tmp_path)):
        net = nn.BatchNorm2d(2)
        swa_utils.update_bn(batches(folder), net)
        for name, want in state(net).items():
            if "running" in name or "tracked" in name:
                torch.testing.assert_close(got[f"0.{name}"], want, rtol=1e-5, atol=1e-6)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.last = nn.BatchNorm1d(3), nn.Linear(3, 3)

    def forward(self, x):
        return self.last(self.norm(torch.relu(self.norm(x))))


def test_a_batch_norm_used_twice_is_refused(folder, tmp_path):
    export(Twice(), tmp_path / "twice.pt", torch.zeros(4, 3))
    np.savez(tmp_path / "d.npz", x=np.zeros((6, 3), "f4"), y=np.zeros((6, 3), "f4"))
    done = tool("run", "twice.pt", "--data", "d.npz", "--loss", "mse", "--optimizer", "sgd", "--recalibrate", "-o", "t.pt", cwd=tmp_path, ok=False)
    assert done.returncode == 3 and "a batch norm that is used twice cannot be measured anew" in done.stderr
    assert "test_averages.py" in done.stderr


FAULTS = {"last_batch_counts_alone": test_recalibration_alone_with_batches_of_each_member, "average_is_last": test_swa_is_pytorchs}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_turn_these_tests_red(folder, monkeypatch, fault):
    turns_red(monkeypatch, fault, FAULTS[fault], folder)
