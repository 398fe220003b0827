"""What the layout pass leaves of the conversions between K first and channel-merged in real networks."""
import re

import pytest
import torch
import torchvision

from chorus_testing import export, tool

NETWORKS = ["resnet18", "mobilenet_v2", "mobilenet_v3_small", "squeezenet1_1", "densenet121", "efficientnet_b0"]


@pytest.fixture(scope="module", params=NETWORKS)
def dump(request, tmp_path_factory):
    """The network's canonical train and eval graph, and how many tensors it has."""
    folder = tmp_path_factory.mktemp(request.param)
    network = getattr(torchvision.models, request.param)(num_classes=10)
    text = tool("opt", "--dump", export(network, folder / "net.pt", torch.randn(2, 3, 64, 64))).stdout
    path = folder / "net.ir"
    path.write_text(text)
    return path, len(re.findall(r"^//   ", text, re.MULTILINE))


# Shared inputs: one view at the end. Stacked ones are merged once at the start.
@pytest.mark.parametrize("first, merges", [(1, 0), (0, 1)])
def test_one_conversion_at_each_end(dump, first, merges):
    path, tensors = dump
    arguments = [path, "-split-input-file", f"--batch={first}-{tensors}"]
    train, evaluation = tool("opt", *arguments, "--layout").stdout.split("// -----")
    for graph in (train, evaluation):
        assert graph.count("chorus::merge(") == merges
        assert graph.count("chorus::unmerge(") == 1
        assert "prim::Loop" not in graph
    lowered = tool("opt", *arguments, "--fused").stdout
    assert "chorus::" not in lowered
