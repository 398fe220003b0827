"""Members that differ in places: what test_partial*.py share. N = C = K = 3 where it can be, so that wrong axes cannot raise."""
import numpy as np
import torch
from torch import nn

from chorus_testing import assert_close, export, nudged, seeded, state, tool, train_eagerly

K = N = C = 3
LRS = [0.02, 0.05, 0.1]
STEPS = 8


class Named(nn.Module):
    """A chain of named parts."""

    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x):
        for part in self.children():
            x = part(x)
        return x


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


class Block(nn.Module):
    """A transformer's, without dropout."""

    def __init__(self, width=6):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        x = x + self.out(torch.softmax(q @ k.transpose(1, 2) / 2.0, -1) @ v)
        return x + self.down(torch.relu(self.up(self.norm2(x))))


class LastState(nn.Module):
    def __init__(self, width, hidden, out):
        super().__init__()
        self.rnn, self.back = nn.LSTM(width, hidden, batch_first=True), nn.Linear(hidden, out)

    def forward(self, x):
        return self.back(self.rnn(x)[0][:, -1])


class Tied(nn.Module):
    """The last layer's weight is the first one's, or its own."""

    def __init__(self, tied):
        super().__init__()
        self.first, self.mid, self.last = nn.Linear(C, C), nn.Linear(C, C), nn.Linear(C, C)
        if tied:
            self.last.weight = self.first.weight

    def forward(self, x):
        return self.last(torch.tanh(self.mid(torch.tanh(self.first(x)))))


class Averaged(nn.Module):
    """Keeps a moving average of what some function gives: a buffer that only training moves."""

    def __init__(self, function):
        super().__init__()
        self.function, self.first, self.last = function, nn.Linear(C, C), nn.Linear(C, C)
        self.register_buffer("mean", torch.zeros(C))

    def forward(self, x):
        h = self.first(x)
        if self.training:
            self.mean.copy_(0.9 * self.mean + 0.1 * self.function(h.detach()).mean(0))
        return self.last(torch.relu(h)) + self.mean


def mlp(act=nn.ReLU, hidden=C, **more):
    return Named(first=nn.Linear(C, hidden), act=act(), last=nn.Linear(hidden, C), **more)


def images(**middle):
    return Named(first=nn.Conv2d(C, C, 3, padding=1), act=nn.ReLU(), **middle, pool=nn.AdaptiveAvgPool2d(1),
                 flat=nn.Flatten(), head=nn.Linear(C, C))


def frozen(net, name):
    dict(net.named_parameters())[name].requires_grad_(False)
    return net


def deep(depth, width=6):
    blocks = {f"block{i}": Block(width) for i in range(depth)}
    return Named(first=nn.Linear(C, width), **blocks, norm=nn.LayerNorm(width), head=nn.Linear(width, C))


VECTOR, IMAGE, SEQUENCE = (N, C), (N, C, 6, 6), (N, 4, C)

# name -> (how each member is built, shape of the input)
CASES = {
    "activation": ([lambda: mlp(nn.ReLU), lambda: mlp(nn.GELU), lambda: mlp(nn.Tanh)], VECTOR),
    "one_odd_in_the_middle": ([lambda: mlp(nn.ReLU), lambda: mlp(nn.GELU), lambda: mlp(nn.ReLU)], VECTOR),
    "hidden_width": ([lambda w=w: Named(a=nn.Linear(C, C), t=nn.Tanh(), b=nn.Linear(C, w), r=nn.ReLU(), c=nn.Linear(w, C), s=nn.Tanh(),
                                        d=nn.Linear(C, C)) for w in (3, 5, 7)], VECTOR),
    "extra_residual": ([lambda n=n: Named(a=nn.Linear(C, C), t=nn.Tanh(), **{f"r{i}": Residual(mlp()) for i in range(n)}, b=nn.Linear(C, C))
                        for n in (1, 2, 1)], VECTOR),
    "kernel": ([lambda k=k: images(conv=nn.Conv2d(C, C, k, padding=k // 2), r=nn.ReLU()) for k in (3, 5, 3)], IMAGE),
    "stride_elsewhere": ([lambda s=s: images(c1=nn.Conv2d(C, C, 3, padding=1, stride=s), r1=nn.ReLU(),
                                             c2=nn.Conv2d(C, C, 3, padding=1, stride=3 - s), r2=nn.ReLU()) for s in (1, 2, 1)], IMAGE),
    "missing_bias": ([lambda b=b: Named(a=nn.Linear(C, C), t=nn.Tanh(), b=nn.Linear(C, C, bias=b), r=nn.Tanh(), c=nn.Linear(C, C))
                      for b in (True, False, True)], VECTOR),
    "batch_norm_or_none": ([lambda b=b: images(conv=nn.Conv2d(C, C, 3, padding=1), **({"norm": nn.BatchNorm2d(C)} if b else {}), r=nn.ReLU())
                            for b in (True, False, True)], IMAGE),
    "batch_or_group_norm": ([lambda m=m: images(conv=nn.Conv2d(C, C, 3, padding=1), norm=m(), r=nn.ReLU())
                             for m in (lambda: nn.BatchNorm2d(C), lambda: nn.GroupNorm(C, C), lambda: nn.InstanceNorm2d(C, affine=True))], IMAGE),
    "head": ([lambda h=h: Named(a=nn.Linear(C, C), t=nn.Tanh(), b=nn.Linear(C, C), r=nn.Tanh(), head=h())
              for h in (lambda: nn.Linear(C, C), lambda: mlp(nn.GELU, 5), lambda: nn.Linear(C, C, bias=False))], VECTOR),
    "first_layer": ([lambda f=f: Named(first=f(), t=nn.Tanh(), b=nn.Linear(C, C), r=nn.Tanh(), head=nn.Linear(C, C))
                     for f in (lambda: nn.Linear(C, C), lambda: mlp(nn.GELU, 4), lambda: nn.Linear(C, C))], VECTOR),
    "two_regions": ([lambda i=i: Named(a=nn.Linear(C, C), f=[nn.ReLU, nn.GELU, nn.ReLU][i](), b=nn.Linear(C, C), t=nn.Tanh(), c=nn.Linear(C, C),
                                       n=nn.LayerNorm(C), e=nn.Linear(C, C), g=[nn.Tanh, nn.Tanh, nn.SiLU][i](), d=nn.Linear(C, C))
                     for i in range(K)], VECTOR),
    "tie_across_the_border": ([lambda t=t: Tied(t) for t in (True, False, True)], VECTOR),
    "frozen_in_one": ([lambda f=f: frozen(Named(a=nn.Linear(C, C), t=nn.Tanh(), b=nn.Linear(C, C), r=nn.Tanh(), c=nn.Linear(C, C)),
                                          "b.weight") if f else Named(a=nn.Linear(C, C), t=nn.Tanh(), b=nn.Linear(C, C), r=nn.Tanh(),
                                                                      c=nn.Linear(C, C)) for f in (False, True, False)], VECTOR),
    "lstm_hidden": ([lambda h=h: Named(first=nn.Linear(C, C), t=nn.Tanh(), rnn=LastState(C, h, C), s=nn.Tanh(), head=nn.Linear(C, C))
                     for h in (3, 4, 3)], SEQUENCE),
    "transformer_depth": ([lambda d=d: deep(d) for d in (1, 2, 3)], SEQUENCE),
    "buffer_update": ([lambda f=f: Averaged(f) for f in (torch.tanh, torch.sin, torch.tanh)], VECTOR),
}


class Case:
    """Three members in a folder, and what eager PyTorch makes of them."""

    def __init__(self, folder, builds, shape, dtype=torch.float32):
        self.folder, self.builds, self.dtype = folder, builds, dtype
        generator = torch.Generator().manual_seed(1)
        self.x = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
        with torch.no_grad():
            out = self.make(0)(self.x)
        self.y = torch.randn(out.shape, generator=generator, dtype=torch.float64).to(dtype)
        np.savez(folder / "d.npz", x=self.x.numpy(), y=self.y.numpy())
        for k in range(len(builds)):
            export(self.make(k), folder / f"m{k}.pt", self.x)

    @property
    def names(self):
        return [f"m{k}.pt" for k in range(len(self.builds))]

    def make(self, k):
        return seeded(self.builds[k], k, self.dtype).train()

    def fuse(self, *options, out="f.pt", ok=True):
        return tool("fuse", *self.names, "-o", out, "--partial", "--loss", "mse", *options, cwd=self.folder, ok=ok)

    def run(self, *options, model="f.pt", out="t.pt", epochs=STEPS, ok=True, env=None):
        return tool("run", model, "--data", "d.npz", "--batch-size", N, "--epochs", epochs, "--shuffle", "none", "--quiet", "-o", out,
                    *options, cwd=self.folder, ok=ok, env=env)

    def members(self, file="t.pt"):
        tool("split", file, "-o", "members", "--force", cwd=self.folder)
        return [state(torch.jit.load(self.folder / "members" / name)) for name in self.names]

    def eager(self, k, optimizer, steps=STEPS, nudge=None):
        net = self.make(k)
        if nudge:
            nudged(net, nudge)
        train_eagerly(net, [(self.x, self.y)] * steps, nn.functional.mse_loss, lambda p: optimizer([q for q in p if q.requires_grad], k))
        return state(net)

    def check(self, optimizer, got, steps=STEPS):
        for k, mine in enumerate(got):
            noisy = [self.eager(k, optimizer, steps, nudge) for nudge in (7, 8)]
            tolerance = 1e-5 if self.dtype == torch.float32 else 1e-10
            assert_close(mine, self.eager(k, optimizer, steps), tolerance, noisy, moved_from=state(self.make(k)), what=f"member {k}")


def sgd(parameters, k):
    return torch.optim.SGD(parameters, lr=LRS[k % 3], momentum=0.9, weight_decay=0.01)


def adam(parameters, k):
    return torch.optim.Adam(parameters, lr=LRS[k % 3])


def rates(count=K):
    return ",".join(str(LRS[k % 3]) for k in range(count))
