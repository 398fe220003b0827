# ctest: quick
"""What --plan says before anything is spent."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from chorus_testing import BIN, export, tool

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
import bench


def plan(folder, nets, x, *more):
    files = [export(net, folder / f"m{k}.pt", x) for k, net in enumerate(nets)]
    done = tool("fuse", *files, "--plan", "--json", "--loss", "cross_entropy", "--optimizer", "adam", "--lr", "1e-3", "--no-verify", *more)
    return json.loads(done.stdout)


def mlp(seed, slope=0.1):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 32), nn.LeakyReLU(slope), nn.Linear(32, 4))


def test_numbers_bytes_and_flops_of_an_mlp(tmp_path):
    found = plan(tmp_path, [mlp(k) for k in range(3)], torch.randn(16, 8))
    numbers = 8 * 32 + 32 + 32 * 4 + 4
    assert found["parameters"] == 3 * numbers
    estimate = found["estimate"]
    assert estimate["rows"] == 16
    assert estimate["tensor_bytes"] == estimate["gradient_bytes"] == 3 * 4 * numbers
    assert estimate["optimizer_bytes"] == 2 * 3 * 4 * numbers  # two moments
    products = 3 * 16 * 2 * (8 * 32 + 32 * 4)
    assert products <= estimate["forward_flops"] <= 1.2 * products
    hidden = 3 * 16 * 32 * 4
    assert hidden <= estimate["activation_bytes"] <= 3 * hidden
    assert estimate["peak_bytes"] == sum(estimate[f"{part}_bytes"] for part in ("tensor", "gradient", "optimizer", "activation"))


def test_estimates_are_linear_in_the_members(tmp_path):
    one = plan(tmp_path, [mlp(0)], torch.randn(16, 8))["estimate"]
    four = plan(tmp_path, [mlp(k) for k in range(4)], torch.randn(16, 8))["estimate"]
    for part in ("tensor_bytes", "gradient_bytes", "optimizer_bytes", "forward_flops"):
        assert four[part] == 4 * one[part], part
    batch = 16 * 8 * 4 + 16 * 8  # inputs and class numbers: the one part that all members share
    assert abs(four["activation_bytes"] - batch - 4 * (one["activation_bytes"] - batch)) < 300  # allocations of [K] numbers


def test_what_varies_and_what_is_shared_is_listed(tmp_path):
    def frozen(k):
        net = mlp(0, 0.1 * (k + 1))
        net[0].requires_grad_(False)
        torch.manual_seed(k)
        net[2] = nn.Linear(32, 4)
        return net

    found = plan(tmp_path, [frozen(k) for k in range(3)], torch.randn(16, 8))
    assert found["varying"] == [{"title": "leaky_relu 'negative_slope'", "values": ["0.1", "0.2", "0.3"]}]
    assert sorted(found["shared"]) == ["0.bias", "0.weight"]
    assert {node["op"]: node["kind"] for node in found["nodes"]}["aten::linear"] == "fused"
    assert [n["kind"] for n in found["nodes"] if n["op"] == "aten::linear"] == ["shared", "fused"]


def test_nothing_else_is_said(tmp_path):
    files = [export(mlp(k), tmp_path / f"m{k}.pt", torch.randn(16, 8)) for k in range(2)]
    done = tool("fuse", *files, "--plan", "--loss", "cross_entropy", "--optimizer", "adam", "--no-verify")
    assert done.stderr == "" and "a step of 16 rows, estimated:" in done.stdout


def test_the_report_says_where_the_time_went(tmp_path):
    seconds = plan(tmp_path, [mlp(k) for k in range(2)], torch.randn(16, 8))["seconds"]
    assert set(seconds) == {"read", "prove", "check", "stack", "build", "verify", "estimate"}
    assert all(value >= 0 for value in seconds.values()) and seconds["read"] > 0


def resnet():
    torchvision = pytest.importorskip("torchvision")
    return torchvision.models.resnet18(num_classes=10)


def wide():
    return nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


# network, a row's shape, rows, K, optimizer
STEPS = {"mlp": (wide, (256,), 512, 6, "adam"), "lenet": (bench.lenet, (3, 32, 32), 64, 5, "sgd"),
         "conv_bn": (bench.conv_bn, (3, 32, 32), 48, 6, "adamw"), "lstm": (bench.lstm, (32, 64), 64, 6, "adam"),
         "resnet18": (resnet, (3, 32, 32), 24, 4, "rmsprop")}


@pytest.fixture(scope="module")
def trained_bytes(tmp_path_factory):
    """What the trainer's tensors take at the peak of a step, recorded from LibTorch's allocator, and the plan's estimate."""
    folder = tmp_path_factory.mktemp("steps")
    estimates, listing = {}, ""
    for name, (make, shape, rows, k, optimizer) in STEPS.items():
        (folder / name).mkdir()
        torch.manual_seed(0)
        files = [export(make(), folder / name / f"m{i}.pt", torch.randn(4, *shape)) for i in range(k)]
        training = ["--loss", "cross_entropy", "--optimizer", optimizer, "--lr", "1e-3", "--no-verify"]
        done = tool("fuse", *files, "--plan", "--json", "--batch-size", rows, *training)
        estimates[name] = json.loads(done.stdout)["estimate"]
        tool("fuse", *files, "-o", folder / f"{name}.pt", *training)
        listing += f"{folder / name}.pt {rows}\n"
    (folder / "list").write_text(listing)
    env = {**os.environ, "CHORUS_STEP_FILES": str(folder / "list"), "CHORUS_STEP_OUT": str(folder / "bytes")}
    subprocess.run([BIN / "chorus_unit", "--gtest_filter=StepMemory.OfFusedFiles"], env=env, check=True, capture_output=True)
    measured = [int(line) for line in (folder / "bytes").read_text().split()]
    return {name: (estimates[name], bytes_) for name, bytes_ in zip(STEPS, measured, strict=True)}


@pytest.mark.parametrize("name", STEPS)
def test_memory_of_a_step_is_estimated_within_15_percent(trained_bytes, name):
    estimate, measured = trained_bytes[name]
    assert estimate["tried"] and estimate["rows"] == STEPS[name][2]
    step = estimate["gradient_bytes"] + estimate["activation_bytes"]
    assert abs(step - measured) <= 0.15 * measured, (step, measured)
    held = estimate["tensor_bytes"] + estimate["optimizer_bytes"]
    assert estimate["peak_bytes"] == held + step


def test_recurrent_layers_and_attention_count(tmp_path):
    found = plan(tmp_path, [bench.lstm() for _ in range(2)], torch.randn(4, 32, 64))["estimate"]
    products = 2 * 4 * 2 * (32 * 4 * 64 * (64 + 64) + 64 * 10)
    assert products <= found["forward_flops"] <= 1.2 * products


def test_batch_size_is_the_plans_own(tmp_path):
    found = plan(tmp_path, [mlp(k) for k in range(2)], torch.randn(16, 8), "--batch-size", 64)["estimate"]
    less = plan(tmp_path, [mlp(k) for k in range(2)], torch.randn(16, 8), "--batch-size", 32)["estimate"]
    assert found["rows"] == 64 and found["forward_flops"] == 2 * less["forward_flops"]
    assert 1.5 < found["activation_bytes"] / less["activation_bytes"] <= 2.5
    done = tool("fuse", tmp_path / "m0.pt", "-o", tmp_path / "f.pt", "--batch-size", 4, ok=False)
    assert done.returncode == 2 and "--plan or --report" in done.stderr


def test_a_batch_that_the_trace_fixed_is_tried_as_it_is(tmp_path):
    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 4)

        def forward(self, x):
            return self.fc(x).view(32, 4)

    found = plan(tmp_path, [Fixed() for _ in range(2)], torch.randn(32, 8))["estimate"]
    assert found["rows"] == 32 and found["tried"]
