"""ResNet-18, MobileNetV2 and SqueezeNet of torchvision against eager PyTorch, in double: such depth amplifies rounding."""
import pytest
import torch
import torch.nn.functional as F

from chorus_testing import assert_close, export, nudged, save_npz, seeded, spec, state, tool, train_eagerly
from networks import LARGE

STEPS, N = 20, 4


@pytest.mark.parametrize("name,k,kind,optimizer", [("resnet18", 2, "trace", "sgd"), ("resnet18", 1, "script", "adamw"),
                                                   ("mobilenet_v2", 2, "script", "sgd"), ("mobilenet_v2", 3, "trace", "adamw"),
                                                   ("squeezenet1_1", 3, "trace", "adamw"), ("squeezenet1_1", 2, "script", "sgd")])
def test_twenty_steps_equal_eager(tmp_path, name, k, kind, optimizer):
    build, shape, classes = LARGE[name]
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(N * STEPS, *shape, generator=generator, dtype=torch.float64)
    y = torch.randint(0, classes, (N * STEPS,), generator=generator)
    lrs = [0.01 / (i + 1) if optimizer == "sgd" else 1e-3 / (i + 1) for i in range(k)]
    make = {"sgd": lambda lr: lambda p: torch.optim.SGD(p, lr=lr, momentum=0.9, weight_decay=1e-4),
            "adamw": lambda lr: lambda p: torch.optim.AdamW(p, lr=lr)}[optimizer]
    paths = [export(seeded(build, i, torch.float64), tmp_path / f"m{i}.pt", x[:N], kind) for i in range(k)]
    options = ["--momentum", "0.9", "--weight-decay", "1e-4"] if optimizer == "sgd" else []
    inputs = ["--input", spec(x)] if kind == "script" else []
    tool("fuse", *paths, "-o", tmp_path / "fused.pt", "--loss", "cross_entropy", "--optimizer", optimizer, *options, *inputs,
         "--lr", ",".join(map(repr, lrs)))
    tool("run", tmp_path / "fused.pt", "--data", save_npz(tmp_path / "d.npz", x, y), "--epochs", 1, "--batch-size", N,
         "--shuffle", "none", "-o", tmp_path / "trained.pt", "--quiet")
    tool("split", tmp_path / "trained.pt", "-o", tmp_path / "members")
    for i in range(k):
        runs = [seeded(build, i, torch.float64), nudged(seeded(build, i, torch.float64))]
        for module in runs:
            train_eagerly(module, zip(x.split(N), y.split(N)), F.cross_entropy, make(lrs[i]))
        got = torch.jit.load(str(tmp_path / "members" / f"m{i}.pt"))
        assert_close(state(got), state(runs[0]), 1e-10, state(runs[1]), what=f"member {i}")
        with torch.no_grad():
            outputs = [{"output": m.eval()(x[:N])} for m in (got, *runs)]
        assert_close(outputs[0], outputs[1], 1e-10, outputs[2], what=f"member {i} in eval mode")
