"""Code that writes in place: through views, aliases, buffers, branches. Fused equals member by member: outputs, gradients, buffers."""
import pytest
import torch
from torch import Tensor, nn

from chorus_testing import export, seeded, tool

K = N = C = 4


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(C, C), nn.Linear(C, C)
        self.register_buffer("mean", torch.zeros(C))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.register_buffer("table", torch.zeros(C, C))


class Slices(Two):
    def forward(self, x: Tensor):
        h = self.a(x).clone()
        old = h * 1
        h[:, 1] = self.b(x)[:, 0] * 2
        h[1:3] = h[0:2] * 3
        h[..., -1] *= 2
        h[:, ::2] += self.b(x)[:, ::2]
        return h + old


class Aliases(Two):
    def forward(self, x: Tensor):
        h = self.a(x)
        g = h
        h += self.b(x)
        y = torch.relu_(h)
        return y * g + h


class Parts(Two):
    """Autograd lets nobody write parts of a tensor that tracks a gradient."""

    def forward(self, x: Tensor):
        h = self.a(x).detach() * 1
        p, q = h.chunk(2, 1)
        p.mul_(2)
        q.add_(p)
        r = h.split([1, 2, 1], 1)
        r[1].tanh_()
        s = h.unbind(1)
        s[0].mul_(s[2])
        t = torch.tensor_split(h, 3, 1)
        t[0].add_(r[0] * 1)
        return self.b(x) * h + p.sum()


class ViewsOfViews(Two):
    def forward(self, x: Tensor):
        h = self.a(x) * 1
        v = h.t()[1:3]
        w = v.transpose(0, 1)[:, 0]
        w.mul_(3)
        v[0] += 1
        u = h.reshape(-1, 2, 2).movedim(0, 2)
        z = h.view(-1, 2, 2).movedim(1, 2)
        z[:, 1].mul_(2.0)
        h.diagonal().add_(1.0)
        e = h[:, :1].expand(-1, 4)
        h[:, 0] = 5.0
        return h + w[:, None] + e * u.sum()


class Fills(Two):
    def forward(self, x: Tensor):
        h = self.a(x) * 1
        h[0].zero_()
        h[:, 3].fill_(2.5)
        z = torch.zeros(4, 4)
        z[0] = h[1]
        z[:2].copy_(self.b(x)[2:])
        z.view(-1)[8:12].copy_(self.a(x)[0])
        z.fill_diagonal_(0.5)
        return h + z


class Indices(Two):
    def forward(self, x: Tensor):
        h = self.a(x) * 1
        i = torch.tensor([0, 2])
        h[i] = self.b(x)[:2]
        h[:, i] += 1.0
        h.index_put_([i, i], torch.ones(2), accumulate=True)
        h[h > 0.7] = 0.5
        h.masked_fill_(x > 1, -1.0)
        h.index_add_(0, i, self.b(x)[:2])
        h.scatter_(0, torch.tensor([[0, 1, 2, 3]]), self.b(x)[:1])
        return h


class Unseen(Two):
    """Autograd does not see these writes: the gradient is that of the value from before."""

    def forward(self, x: Tensor):
        h = self.a(x)
        h.detach().mul_(2.0)
        return h + self.b(x)


class UnderNoGrad(Two):
    def forward(self, x: Tensor):
        h = self.a(x)
        with torch.no_grad():
            h.clamp_(min=0.1)
            h[:, 0] = 1.0
        return h + self.b(x)


class Buffers(Two):
    def forward(self, x: Tensor):
        h = self.a(x)
        old = self.mean.clone()
        same = self.mean
        self.mean.copy_(h.detach().mean(0))
        same.mul_(0.5)
        self.count += 1
        self.table[1:] = self.table[:-1].clone()
        self.table[0] = h.detach()[0]
        return h * old + self.mean + self.table.sum(0) * self.count


class AssignedBuffers(Two):
    def forward(self, x: Tensor):
        h = self.a(x)
        old = self.mean
        self.mean = old * 0.5 + h.detach().mean(0)
        self.mean.mul_(2.0)
        self.table = torch.cat([self.table[1:], h.detach()[:1]], 0)
        return h * old + self.mean + self.table.sum(0)


class BranchesAndLoops(Two):
    def forward(self, x: Tensor):
        h = self.a(x) * 1
        out = torch.zeros_like(x)
        for i in range(x.size(1)):
            if i % 2 == 0:
                h[:, i] = h[:, i - 1] * 2
            else:
                h[i] += self.b(x)[i]
            out[:, i] = h[:, i] * i + out[:, i - 1]
        return out


class ReshapedInPlace(Two):
    def forward(self, x: Tensor):
        h = self.a(x) * 1
        v = h[:, 0]
        h.unsqueeze_(1)
        h[:, 0, 1].mul_(2.0)
        v.add_(1.0)
        h.squeeze_(1)
        h.t_()
        return h.transpose(0, 1) + v[:, None]


class Out(Two):
    def forward(self, x: Tensor):
        o = torch.zeros(4, 4)
        g = o
        torch.mul(self.a(x).detach(), 2.0, out=o)
        return g * self.b(x)


NETWORKS = [Slices, Aliases, Parts, ViewsOfViews, Fills, Indices, Unseen, UnderNoGrad, Buffers, AssignedBuffers, BranchesAndLoops,
            ReshapedInPlace, Out]
SCRIPT_ONLY = {AssignedBuffers, UnderNoGrad}  # a trace holds no assignment of attributes and no mode of autograd


def two_passes(module, x):
    outputs = []
    for _ in range(2):
        for p in module.parameters():
            p.grad = None
        outputs.append(module(x.clone()))
        outputs[-1].pow(2).sum().backward()
    gradients = {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in module.named_parameters()}
    return [o.detach() for o in outputs], gradients, dict(module.named_buffers())


@pytest.mark.parametrize("kind", ["trace", "script"])
@pytest.mark.parametrize("network", NETWORKS)
def test_a_later_reader_sees_the_new_value(tmp_path, network, kind):
    if kind == "trace" and network in SCRIPT_ONLY:
        pytest.skip("a trace does not hold this")
    x = torch.randn(N, C, generator=torch.Generator().manual_seed(5))
    paths = [export(seeded(network, k), tmp_path / f"m{k}.pt", x, kind) for k in range(K)]
    tool("fuse", *paths, "-o", tmp_path / "fused.pt", "--input", f"f32[{N},{C}]")
    outputs, gradients, buffers = two_passes(torch.jit.load(str(tmp_path / "fused.pt")).train(), x)
    for k in range(K):
        want = two_passes(seeded(network, k), x)
        for step in range(2):
            torch.testing.assert_close(outputs[step][k], want[0][step], rtol=1e-5, atol=1e-5, msg=lambda m: f"output {step}: {m}")
        for name, gradient in want[1].items():
            torch.testing.assert_close(gradients[name][k], gradient, rtol=1e-4, atol=1e-4, msg=lambda m: f"{name}: {m}")
        for name, buffer in want[2].items():
            torch.testing.assert_close(buffers[name][k], buffer, rtol=1e-5, atol=1e-5, msg=lambda m: f"{name}: {m}")


class WritesItsWeight(Two):
    def forward(self, x: Tensor):
        self.a.weight.detach().clamp_(max=1.0)
        return self.a(x)


class WritesOverlapping(Two):
    def forward(self, x: Tensor):
        h = self.a(x).detach() * 1
        h.unfold(1, 2, 1).mul_(2.0)
        return h


@pytest.mark.parametrize("network,text", [(WritesItsWeight, "the forward method writes the parameter 'a.weight'"),
                                          (WritesOverlapping, "an in-place write through aten::unfold")])
def test_what_cannot_be_seen_is_refused_with_its_line(tmp_path, network, text):
    path = export(network(), tmp_path / "m.pt", torch.randn(N, C))
    done = tool("fuse", path, "--replicate", 2, "-o", tmp_path / "fused.pt", ok=False)
    assert done.returncode == 3 and text in done.stderr and "test_writes.py:" in done.stderr, done.stderr
