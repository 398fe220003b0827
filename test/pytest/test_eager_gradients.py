# ctest: quick
"""The gradients of a fused file in plain PyTorch are autograd's, also from the second call on, when LibTorch's optimiser differentiates
scripts by formulas of its own: those of some ops differ at ties and zeros, or in double precision, and none knows complex numbers."""
import pytest
import torch
import torch.nn.functional as F

from chorus_testing import export, seeded, tool
from zoo.case import Calls

K, CALLS = 2, 4
TIES = torch.tensor([[-3.0, -1.0, 0.0], [0.5, 1.0, 2.0]], dtype=torch.float64)  # N = K = 2

OPS = {
    "leaky_relu": lambda x, w: F.leaky_relu(x, 0.2),
    "hardtanh": lambda x, w: F.hardtanh(x, -1.0, 1.0),
    "relu6": lambda x, w: F.relu6(x),
    "threshold": lambda x, w: F.threshold(x, 0.0, 0.5),
    "max of two": lambda x, w: torch.max(x, w * 0),
    "min of two": lambda x, w: torch.min(x, w * 0),
    "pow of zero": lambda x, w: torch.pow(torch.relu(x), w.abs()),
    "pow of a number": lambda x, w: torch.pow(0.0, torch.relu(x)),
    "std of equal numbers": lambda x, w: x + torch.std(x * 0, 1, keepdim=True),
    "hardsigmoid": lambda x, w: F.hardsigmoid(x),
    "complex product": lambda x, w: torch.view_as_real(torch.polar(x, w * x) * torch.complex(w, x)).sum(-1),
    "complex matmul": lambda x, w: torch.view_as_real((x + 0j) @ torch.outer(torch.polar(w, w), w + 1j)).sum(-1),
    "spectrum": lambda x, w: torch.fft.irfft(torch.fft.rfft(x, 4) * torch.fft.rfft(w, 4) * 1j, 4)[..., :3],
}


def network(op):
    def forward(net, x):
        y = op(x, net.w) + 0.1 * net.w
        return torch.tanh(y * 0.3) * torch.exp(y * 0.1) + y
    return Calls(forward, {"w": torch.randn(3)})


@pytest.mark.parametrize("name", OPS)
def test_gradients_of_later_calls_are_those_of_autograd(name, tmp_path):
    def build():
        return network(OPS[name])
    members = [seeded(build, k, torch.float64) for k in range(K)]
    paths = [export(member, tmp_path / f"m{k}.pt", TIES) for k, member in enumerate(members)]
    tool("fuse", *paths, "-o", tmp_path / "fused.pt")
    fused = torch.jit.load(str(tmp_path / "fused.pt"))
    for call in range(CALLS):
        x = TIES.clone().requires_grad_()
        (gradient_w,), gradient_x = fused_gradients(fused, x)
        want = [torch.autograd.grad(member(x).pow(2).sum(), [member.w, x]) for member in members]
        torch.testing.assert_close(gradient_w, torch.stack([w for w, _ in want]), rtol=1e-12, atol=1e-13, msg=lambda m: f"call {call}: {m}")
        torch.testing.assert_close(gradient_x, sum(x for _, x in want), rtol=1e-12, atol=1e-13, msg=lambda m: f"call {call}: {m}")


def fused_gradients(fused, x):
    parameters = [p for p in fused.parameters() if p.requires_grad]
    *gradients, of_x = torch.autograd.grad(fused(x).pow(2).sum(), [*parameters, x])
    return gradients, of_x
