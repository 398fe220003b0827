"""Common ops, one at a time: the fused op on stacked operands against one call per member.

For each op and K, in one run and one thread, rounds interleaved: forward, and forward plus backward of the sum. Prints the median
of (time of K calls) / (time of the fused call): above 1 the rule pays, below 0.9 it is marked with `<`. `--json FILE` writes it all.
Machines are shared and noisy: only ratios of one round mean something.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")
import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)


class Function(nn.Module):
    """`function(x)`, or `function(x, w)` with a parameter of the given shape."""

    def __init__(self, function, *weight):
        super().__init__()
        self.function = function
        self.w = nn.Parameter(torch.randn(weight)) if weight else None

    def forward(self, x):
        return self.function(x) if self.w is None else self.function(x, self.w)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.qkv, self.heads = nn.Linear(width, 3 * width), heads

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        return F.scaled_dot_product_attention(q, k, v)


class First(nn.Module):
    """A recurrent network's output sequence."""

    def __init__(self, recurrent):
        super().__init__()
        self.recurrent = recurrent

    def forward(self, x):
        return self.recurrent(x)[0]


IMAGES = (16, 32, 16, 16)
TOKENS = (16, 32, 64)
ROWS = (32, 64)

# name: makes the member, shape of its input
OPS = {
    "linear 64x64": (lambda: nn.Linear(64, 64), ROWS),
    "linear 512x512": (lambda: nn.Linear(512, 512), (64, 512)),
    "linear 1024x1024": (lambda: nn.Linear(1024, 1024), (256, 1024)),
    "linear of tokens": (lambda: nn.Linear(64, 256), TOKENS),
    "matmul": (lambda: Function(torch.matmul, 64, 64), TOKENS),
    "einsum bti,ij->btj": (lambda: Function(lambda x, w: torch.einsum("bti,ij->btj", x, w), 64, 64), TOKENS),
    "bilinear": (lambda: Function(lambda x, w: F.bilinear(x, x, w), 16, 64, 64), ROWS),
    "conv1d k3": (lambda: nn.Conv1d(32, 64, 3, padding=1), TOKENS),
    "conv2d 1x1": (lambda: nn.Conv2d(32, 64, 1), IMAGES),
    "conv2d 3x3": (lambda: nn.Conv2d(32, 32, 3, padding=1), IMAGES),
    "conv2d 3x3 stride 2": (lambda: nn.Conv2d(32, 64, 3, stride=2, padding=1), IMAGES),
    "conv2d 3x3 wide": (lambda: nn.Conv2d(128, 128, 3, padding=1), (8, 128, 8, 8)),
    "conv2d 7x7 of images": (lambda: nn.Conv2d(3, 32, 7, stride=2, padding=3), (8, 3, 64, 64)),
    "conv2d depthwise": (lambda: nn.Conv2d(32, 32, 3, padding=1, groups=32), IMAGES),
    "conv2d groups 4": (lambda: nn.Conv2d(32, 32, 3, padding=1, groups=4), IMAGES),
    "conv3d 3x3x3": (lambda: nn.Conv3d(8, 8, 3, padding=1), (4, 8, 8, 8, 8)),
    "conv_transpose2d": (lambda: nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1), IMAGES),
    "batch_norm of images": (lambda: nn.BatchNorm2d(32), IMAGES),
    "batch_norm of rows": (lambda: nn.BatchNorm1d(64), ROWS),
    "layer_norm": (lambda: nn.LayerNorm(64), TOKENS),
    "group_norm": (lambda: nn.GroupNorm(8, 32), IMAGES),
    "instance_norm": (lambda: nn.InstanceNorm2d(32, affine=True), IMAGES),
    "rms_norm": (lambda: nn.RMSNorm(64), TOKENS),
    "max_pool2d": (lambda: nn.MaxPool2d(2), IMAGES),
    "avg_pool2d": (lambda: nn.AvgPool2d(2), IMAGES),
    "adaptive_avg_pool2d": (lambda: nn.AdaptiveAvgPool2d(1), IMAGES),
    "interpolate bilinear": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (4, 16, 16, 16)),
    "pixel_shuffle": (lambda: nn.PixelShuffle(2), IMAGES),
    "relu": (lambda: nn.ReLU(), IMAGES),
    "gelu": (lambda: nn.GELU(), TOKENS),
    "sigmoid": (lambda: nn.Sigmoid(), TOKENS),
    "softmax": (lambda: nn.Softmax(-1), TOKENS),
    "log_softmax": (lambda: nn.LogSoftmax(-1), ROWS),
    "scale and shift": (lambda: Function(lambda x, w: x * w + w, 64), TOKENS),
    "mean over a dim": (lambda: Function(lambda x: x.mean(1)), TOKENS),
    "cumsum": (lambda: Function(lambda x: x.cumsum(1)), TOKENS),
    "cat": (lambda: Function(lambda x, w: torch.cat([x, x * w], -1), 64), TOKENS),
    "index_select": (lambda: Function(lambda x, w: (x * w).index_select(1, torch.arange(0, 32, 2)), 64), TOKENS),
    "prelu": (lambda: nn.PReLU(64), (32, 64, 16)),
    "attention": (lambda: Attention(64, 4), TOKENS),
    "lstm": (lambda: First(nn.LSTM(64, 64)), (32, 32, 64)),
    "gru": (lambda: First(nn.GRU(64, 64)), (32, 32, 64)),
}


class Fused:
    def __init__(self, modules, x, folder, bin_folder):
        paths = []
        for i, module in enumerate(modules):
            paths.append(Path(folder) / f"m{i}.pt")
            torch.jit.trace(module, x[i], check_trace=False).save(str(paths[-1]))
        fused = Path(folder) / "fused.pt"
        subprocess.run([bin_folder / "chorus-fuse", *paths, "-o", fused, "--no-verify"], check=True, stdout=subprocess.DEVNULL)
        self.module, self.x = torch.jit.load(str(fused)).train(), x

    def forward(self):
        with torch.no_grad():
            self.module(self.x)

    def backward(self):
        self.x.grad = None
        self.module.zero_grad()
        self.module(self.x).sum().backward()


class PerMember:
    """The same K traces, called one after another."""

    def __init__(self, modules, x):
        self.x = [row.detach().clone().requires_grad_() for row in x]
        self.modules = [torch.jit.trace(m, row, check_trace=False) for m, row in zip(modules, self.x)]

    def forward(self):
        with torch.no_grad():
            for module, x in zip(self.modules, self.x):
                module(x)

    def backward(self):
        for module, x in zip(self.modules, self.x):
            x.grad = None
            module.zero_grad()
            module(x).sum().backward()


def timed(call, count):
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - begin) / count


def count_for(call, seconds=0.05):
    for _ in range(3):  # warm-up
        call()
    return max(2, min(200, int(seconds / max(timed(call, 2), 1e-6))))


def measure(name, k, rounds, bin_folder):
    """{"forward": [...], "backward": [...]}: a ratio per round."""
    make, shape = OPS[name]
    modules = []
    for i in range(k):
        torch.manual_seed(i)
        modules.append(make().train())
    x = torch.randn(k, *shape).requires_grad_()
    with tempfile.TemporaryDirectory(prefix="chorus-bench-") as folder:
        fused = Fused(modules, x, folder, bin_folder)
    solo = PerMember(modules, x.detach())
    ratios = {}
    for direction in ("forward", "backward"):
        ours, theirs = getattr(fused, direction), getattr(solo, direction)
        n, m = count_for(ours), count_for(theirs)
        ratios[direction] = [timed(theirs, m) / timed(ours, n) for _ in range(rounds)]
    return ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=os.environ.get("CHORUS_BIN", "build/bin"))
    parser.add_argument("--op", action="append", choices=list(OPS))
    parser.add_argument("--k", type=int, action="append", help="default 2, 8, 32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    # The default executor profiles for several calls (docs/using_the_file.md).
    torch._C._jit_set_profiling_mode(False)
    ks = args.k or [2, 8, 32]
    print(f"{'K calls / fused':24}" + "".join(f"{f'K={k} forward':>15}{'and backward':>15}" for k in ks))
    results = {}
    for name in args.op or OPS:
        row = []
        for k in ks:
            ratios = measure(name, k, args.rounds, args.bin.resolve())
            results[f"{name} K={k}"] = ratios
            row += [statistics.median(ratios["forward"]), statistics.median(ratios["backward"])]
        print(f"{name:24}" + "".join(f"{r:>13.2f}x{'<' if r < 0.9 else ' '}" for r in row), flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
