"""What the tests of training semantics share: three members of a small net, trained by chorus-run and by eager PyTorch."""
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler as schedulers

from chorus_testing import assert_close, export, nudged, state, tool

K = 3
N = 12
LRS = [0.02, 0.05, 0.1]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


def make(k, dtype=torch.float32):
    torch.manual_seed(k)
    return Net().to(dtype)


@pytest.fixture(scope="module", params=["f32", "f64"])
def both(request, tmp_path_factory):
    return prepare(tmp_path_factory.mktemp(request.param), {"f32": torch.float32, "f64": torch.float64}[request.param])


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("f32"), torch.float32)


class Case:
    def __init__(self, folder, dtype, x, y):
        self.folder, self.dtype, self.x, self.y = folder, dtype, x, y
        self.tolerance = 1e-5 if dtype == torch.float32 else 1e-10

    def run(self, *options, out="t.pt", epochs=30, model="fused.pt", batch=N, ok=True, env=None):
        return tool("run", model, "--data", "d.npz", "--batch-size", batch, "--epochs", epochs, "--shuffle", "none", "--quiet",
                    "-o", out, *options, cwd=self.folder, ok=ok, env=env)

    def members(self, file="t.pt"):
        tool("split", file, "-o", "members", "--force", cwd=self.folder)
        return [state(torch.jit.load(self.folder / "members" / f"m{k}.pt")) for k in range(K)]

    def fuse(self, out, *options):
        tool("fuse", *[f"m{k}.pt" for k in range(K)], "-o", out, "--no-verify", *options, cwd=self.folder)

    def close(self, got, want, noisy=None):
        """Within the design's tolerance, or 30 times what one rounding of the initial weights makes of the same run."""
        assert list(got) == list(want)
        assert_close(got, want, self.tolerance, noisy)


def prepare(folder, dtype):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(N, 3, generator=generator, dtype=torch.float64).to(dtype)
    y = torch.randn(N, 3, generator=generator, dtype=torch.float64).to(dtype)
    np.savez(folder / "d.npz", x=x.numpy(), y=y.numpy())
    for k in range(K):
        export(make(k, dtype), folder / f"m{k}.pt", x)
    case = Case(folder, dtype, x, y)
    case.fuse("fused.pt")
    return case


def eager(case, k, optimizer, steps, scheduler=None, after=None, noise=False):
    """Returns the state after `steps` full-batch steps, and the rate of each. `noise`: True or the seed of a nudge."""
    net = make(k, case.dtype)
    if noise:
        nudged(net, 7 if noise is True else noise)
    stepper = optimizer(net)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = scheduler(stepper) if scheduler else None
        rates = []
        for _ in range(steps):
            stepper.zero_grad()
            loss = nn.functional.mse_loss(net(case.x), case.y)
            loss.backward()
            rates.append(stepper.param_groups[0]["lr"])
            stepper.step()
            if after:
                after(net)
            if plan:
                plan.step(*([float(loss.detach())] if isinstance(plan, schedulers.ReduceLROnPlateau) else []))
    return state(net), rates


def three(**values):
    """--name a,b,c and the three keyword dicts."""
    options, each = [], [{} for _ in range(K)]
    for name, numbers in values.items():
        if isinstance(numbers, bool):
            options.append("--" + name.replace("_", "-"))
        elif isinstance(numbers[0], tuple):
            options += ["--" + name.replace("_", "-"), ";".join(",".join(map(str, pair)) for pair in numbers)]
        else:
            options += ["--" + name.replace("_", "-"), ",".join(map(str, numbers))]
        for k in range(K):
            each[k][name] = numbers if isinstance(numbers, bool) else numbers[k]
    return options, each


def turns_red(monkeypatch, fault, test, *arguments):
    """The test fails under the injected fault."""
    monkeypatch.setenv("CHORUS_FAULT", fault)
    with pytest.raises(AssertionError):
        test(*arguments)
