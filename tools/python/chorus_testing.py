"""What the Python tests share: exporting members, calling the tools, training in eager PyTorch, comparing."""
import os
import subprocess
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn

BIN = Path(os.environ.get("CHORUS_BIN", Path(__file__).resolve().parents[2] / "build" / "bin"))
torch.set_num_threads(1)


def tool(name, *arguments, ok=True, cwd=None, env=None):
    """Runs chorus-NAME; fails with its message unless `ok` is False. Returns the CompletedProcess."""
    argv = [str(BIN / f"chorus-{name}"), *map(str, arguments)]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=cwd,
                          env={**os.environ, **(env or {})})
    if ok and done.returncode != 0:
        raise AssertionError(f"chorus-{name} exits with {done.returncode}:\n{done.stderr}")
    return done


def seeded(build, k, dtype=torch.float32):
    torch.manual_seed(100 + k)
    return build().to(dtype)


def export(module, path, example, kind="trace"):
    """Writes the module; its weights and buffers stay as they were (tracing runs it once)."""
    before = {n: t.detach().clone() for n, t in module.state_dict().items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = torch.jit.script(module) if kind == "script" else torch.jit.trace(module, example, check_trace=False)
    module.load_state_dict(before)
    made.save(str(path))
    return path


def spec(example):
    name = {torch.float32: "f32", torch.float64: "f64", torch.int64: "i64"}[example.dtype]
    return f"{name}[{','.join(['N', *map(str, example.shape[1:])])}]"


def state(module):
    named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    return {n: t.detach().clone() for n, t in named}


def train_eagerly(module, batches, loss, optimizer):
    """`optimizer(parameters)` makes it. Returns the losses."""
    module.train()
    stepper, losses = optimizer(list(module.parameters())), []
    for x, y in batches:
        stepper.zero_grad()
        value = loss(module(x), y)
        value.backward()
        stepper.step()
        losses.append(float(value.detach()))
    return losses


def nudged(module, seed=7, rounding=None):
    """Weights moved by one rounding (or that share of each): how much of a difference is the network's own amplification."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            sign = torch.randint(0, 3, p.shape, generator=generator) - 1
            p.mul_(1 + sign.to(p.dtype) * (rounding or torch.finfo(p.dtype).eps))
    return module


def assert_close(got, want, tolerance, noisy=None, moved_from=None, what=""):
    """Every tensor within `tolerance` of its own scale, or within 30 times the spread of nudged runs.

    `noisy`: the state of a nudged run, or a list of several (one nudge may cancel in a tensor of few numbers).
    `moved_from`: the initial state; a tensor that training moved by little is held to a hundred times that movement, so that
    one that was not trained shows. One whose gradient is zero but for rounding (a bias in front of a batch norm) may be off by the
    rounding of the largest movement.
    """
    assert sorted(got) == sorted(want), f"{what}: other tensors: {sorted(set(got) ^ set(want))}"
    moved = {n: float((t - moved_from[n]).abs().max()) for n, t in want.items() if t.is_floating_point() and t.numel()} if moved_from else {}
    for name, reference in want.items():
        mine = got[name]
        assert mine.shape == reference.shape and mine.dtype == reference.dtype, f"{what} {name}: {mine.shape} {mine.dtype}"
        if not reference.is_floating_point():
            assert torch.equal(mine, reference), f"{what} {name}: {mine} instead of {reference}"
            continue
        scale = float(reference.abs().max()) if reference.numel() else 0.0
        rounding = torch.finfo(reference.dtype).eps
        allowed = 4 * rounding * scale
        if name in moved:
            scale = min(scale, 100 * moved[name])
            allowed = max(allowed, rounding * max(moved.values()))
        allowed = max(allowed, tolerance * scale)
        for nudge in [noisy] if isinstance(noisy, dict) else noisy or []:
            allowed = max(allowed, 30 * float((nudge[name] - reference).abs().max()))
        error = float((mine - reference).abs().max()) if reference.numel() else 0.0
        assert error <= allowed, f"{what} {name}: off by {error:.3e}, allowed {allowed:.3e}"


def save_npz(path, x, y):
    np.savez(path, x=x.numpy(), y=y.numpy())
    return path


class MLP(nn.Sequential):
    def __init__(self, *sizes):
        layers = []
        for a, b in zip(sizes, sizes[1:]):
            layers += [nn.Linear(a, b), nn.ReLU()]
        super().__init__(*layers[:-1])


class TwoLayers(nn.Module):
    """Four inputs, three outputs."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 3), nn.Linear(3, 3)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))
