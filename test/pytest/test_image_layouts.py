# ctest: quick
"""Chains over images, in both layouts: what stays K first, what stays merged, and where one becomes the other."""
import pytest
import torch
from torch import nn

from chorus_testing import assert_close, seeded

chorus = pytest.importorskip("chorus", reason="the Python module is not built here")

N = C = 4


class Pooled(nn.Module):
    """Pools with indices, resizing and norms around a convolution."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(C, C, 3, padding=1), nn.GroupNorm(2, C)

    def forward(self, x):
        a, i = nn.functional.max_pool2d(x, 2, return_indices=True)
        b = self.norm(torch.relu(self.conv(a)))
        return nn.functional.max_unpool2d(b, i, 2) + nn.functional.interpolate(b, scale_factor=2, mode="bilinear")


CHAINS = {
    "norms of a K-first input": lambda: nn.Sequential(nn.GroupNorm(2, C), nn.ReLU(), nn.InstanceNorm2d(C, affine=True), nn.Tanh(),
                                                      nn.GroupNorm(4, C, affine=False)),
    "norms behind a convolution": lambda: nn.Sequential(nn.Conv2d(C, C, 3, padding=1), nn.GroupNorm(2, C), nn.ReLU(), nn.Conv2d(C, C, 1, bias=False),
                                                        nn.InstanceNorm2d(C), nn.ReLU(), nn.BatchNorm2d(C), nn.Conv2d(C, C, 3)),
    "pools in front of a convolution": lambda: nn.Sequential(nn.MaxPool2d(2), nn.Hardtanh(), nn.Conv2d(C, C, 3, padding=1), nn.AvgPool2d(2)),
    "pools alone": lambda: nn.Sequential(nn.AdaptiveAvgPool2d((3, 4)), nn.Sigmoid(), nn.AdaptiveMaxPool2d(2), nn.ReflectionPad2d(1)),
    "channels into places": lambda: nn.Sequential(nn.PixelShuffle(2), nn.ReplicationPad2d(1), nn.PixelUnshuffle(2), nn.Upsample(scale_factor=2)),
    "indices and resizing": Pooled,
    "rows of one number": lambda: nn.Sequential(nn.Flatten(), nn.Linear(C * 16, C), nn.GroupNorm(2, C), nn.ReLU(), nn.GroupNorm(1, C)),
    "pixels that are skipped": lambda: nn.Sequential(nn.Conv2d(C, 2 * C, 1, stride=2), nn.Tanh(), nn.Conv2d(2 * C, C, 1, stride=(2, 1), bias=False)),
    "sequences": lambda: nn.Sequential(nn.Flatten(2), nn.InstanceNorm1d(C), nn.MaxPool1d(2), nn.Conv1d(C, C, 3), nn.GroupNorm(2, C), nn.AvgPool1d(2)),
}


@pytest.mark.parametrize("disable", [(), ("layout",), ("channels-last",)], ids=["", "without layout", "without channels-last"])
@pytest.mark.parametrize("stacked", [True, False], ids=["stacked", "shared"])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("name", CHAINS)
def test_chain_equals_members(name, k, stacked, disable):
    models = [seeded(CHAINS[name], i, torch.float64) for i in range(k)]
    torch.manual_seed(9)
    xs = torch.randn(k, N, C, 4, 4, dtype=torch.float64) if stacked else torch.randn(N, C, 4, 4, dtype=torch.float64)
    fused = chorus.fuse([torch.jit.trace(m, xs[0] if stacked else xs) for m in models], disable=list(disable)).train()
    x = xs.clone().requires_grad_()
    y = fused(x)
    own = [(xs[i] if stacked else xs).clone().requires_grad_() for i in range(k)]
    want = torch.stack([m(o) for m, o in zip(models, own)])
    weight = torch.randn_like(want)
    (y * weight).sum().backward()
    (want * weight).sum().backward()
    assert_close({"y": y.detach()}, {"y": want.detach()}, 1e-10)
    gradients = [o.grad for o in own]
    assert_close({"x": x.grad}, {"x": torch.stack(gradients) if stacked else sum(gradients)}, 1e-10)
    stack = {n: torch.stack([dict(m.named_parameters())[n].grad for m in models]) for n, _ in models[0].named_parameters()}
    assert_close({n: p.grad for n, p in fused.named_parameters()}, stack, 1e-10)
