# ctest: quick
"""What --plan says before anything is spent."""
import json

import torch
from torch import nn

from chorus_testing import export, tool


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
    for part in ("tensor_bytes", "gradient_bytes", "optimizer_bytes", "activation_bytes", "forward_flops"):
        assert four[part] == 4 * one[part], part


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


def test_the_report_says_where_the_time_went(tmp_path):
    seconds = plan(tmp_path, [mlp(k) for k in range(2)], torch.randn(16, 8))["seconds"]
    assert set(seconds) == {"read", "prove", "check", "stack", "build", "verify"}
    assert all(value >= 0 for value in seconds.values()) and seconds["read"] > 0
