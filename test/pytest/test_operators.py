# ctest: quick
"""Operators as networks use them, whose arguments no line of a conformance sample can write: fused equals each member alone."""
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from chorus_testing import assert_close, seeded

chorus = pytest.importorskip("chorus", reason="the Python module is not built here")

N = C = 4
COUNTS = torch.tensor([1, 2, 0, 1])


class Net(nn.Module):
    function, shape = None, (N, C)

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.rand(self.shape) + 0.1)

    def forward(self, x):
        return type(self).function(x, self.w)


class FastPath(nn.Module):
    """Takes the encoder's own kernel in eval mode without gradients."""

    shape = (N, C, C)

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(C, 2, 8, dropout=0.0, batch_first=True)
        self.net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x):
        return self.net(x)


FUNCTIONS = {
    "repeat_interleave, a count per place": (lambda x, w: (x * w).repeat_interleave(COUNTS, 1), (N, C), (C,)),
    "repeat_interleave, the size told": (lambda x, w: (x * w).repeat_interleave(COUNTS, 0, output_size=4), (N, C), (C,)),
    "spatial transformer": (lambda x, w: F.grid_sample(x, F.affine_grid(w * x[:, 0, :2, :3], [N, C, 3, 5], align_corners=False), align_corners=False),
                            (N, C, C, C), (2, 3)),
    "affine_grid of volumes": (lambda x, w: F.affine_grid(w * x[:, :3], [N, C, 2, 3, 4], align_corners=True), (N, C, C), (3, 4)),
    "quantised weights": (lambda x, w: x @ torch.fake_quantize_per_channel_affine(w, w.detach().abs().amax(1) / 8, torch.zeros(4, dtype=torch.int32), 0, -8, 7),
                          (N, C), (4, C)),
    "quantised activations": (lambda x, w: torch.fake_quantize_per_tensor_affine(x * w, 0.05, 3, 0, 255), (N, C), (C,)),
}


def check(models, xs, stacked, training=True):
    k = len(models)
    traced = [torch.jit.trace(m, xs[0] if stacked else xs, check_trace=False) for m in models]
    fused = chorus.fuse(traced).train(training)
    code = "".join(getattr(fused, n).code for n in fused._c._method_names() if n.startswith("chorus_forward_"))
    x = xs.clone().requires_grad_(training)
    own = [(xs[i] if stacked else xs).clone().requires_grad_(training) for i in range(k)]
    y, want = fused(x), torch.stack([m(o) for m, o in zip(models, own)])
    assert_close({"y": y.detach()}, {"y": want.detach()}, 1e-5)
    if training:
        weight = torch.randn_like(want)
        (y * weight).sum().backward()
        (want * weight).sum().backward()
        gradients = [o.grad for o in own]
        assert_close({"x": x.grad}, {"x": torch.stack(gradients) if stacked else sum(gradients)}, 1e-5)
        stack = {n: torch.stack([dict(m.named_parameters())[n].grad for m in models]) for n, _ in models[0].named_parameters()}
        assert_close({n: p.grad for n, p in fused.named_parameters()}, stack, 1e-5)
    return code


@pytest.mark.parametrize("stacked", [True, False], ids=["stacked", "shared"])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_is_batched(name, k, stacked):
    function, rows, shape = FUNCTIONS[name]
    build = type("Made", (Net,), {"function": staticmethod(function), "shape": shape})
    torch.manual_seed(7)
    xs = torch.rand(k, *rows) if stacked else torch.rand(*rows)
    code = check([seeded(build, i) for i in range(k)], xs, stacked)
    assert "for " not in code and "while " not in code, "a loop over members"


@pytest.mark.parametrize("stacked", [True, False], ids=["stacked", "shared"])
@pytest.mark.parametrize("k", [1, 3])
def test_encoder_in_eval_mode(k, stacked):
    torch.manual_seed(7)
    xs = torch.randn(k, N, C, C) if stacked else torch.randn(N, C, C)
    with torch.no_grad():
        check([seeded(FastPath, i).eval() for i in range(k)], xs, stacked, training=False)
