"""K heads over one frozen ResNet-18: a step of all of them against a step of one member alone.

Both are fused files (the one has K = 1) that train_step runs in plain PyTorch, rounds interleaved, one thread. Prints the medians and
their ratio, which should be below 1.5.
"""
import argparse
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
import torchvision
from torch import nn

torch.set_num_threads(1)


def member(k):
    torch.manual_seed(0)
    net = torchvision.models.resnet18()
    net.requires_grad_(False)
    torch.manual_seed(1 + k)
    net.fc = nn.Linear(512, 10)
    return net


def fused(folder, paths, name, bin_folder):
    subprocess.run([bin_folder / "chorus-fuse", *paths, "-o", folder / name, "--no-verify", "--loss", "cross_entropy", "--optimizer", "sgd",
                    "--lr", "0.01"], check=True, stdout=subprocess.DEVNULL)
    return torch.jit.load(str(folder / name)).train()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=Path(os.environ.get("CHORUS_BIN", "build/bin")))
    parser.add_argument("--k", type=int, default=16)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chorus-trunk-") as name:
        folder = Path(name)
        x = torch.randn(args.rows, 3, args.size, args.size)
        y = torch.randint(0, 10, (args.rows,))
        paths = []
        for k in range(args.k):
            paths.append(folder / f"m{k}.pt")
            torch.jit.trace(member(k), x, check_trace=False).save(str(paths[-1]))
        models = {f"K = {args.k}": fused(folder, paths, "all.pt", args.bin.resolve()),
                  "K = 1": fused(folder, paths[:1], "one.pt", args.bin.resolve())}
        times = {title: [] for title in models}
        for _ in range(args.rounds):
            for title, model in models.items():
                model.train_step(x, y)
                begin = time.perf_counter()
                model.train_step(x, y)
                times[title].append(time.perf_counter() - begin)
        medians = {title: statistics.median(values) for title, values in times.items()}
        for title, value in medians.items():
            print(f"{title:>8} {1e3 * value:8.1f} ms a step")
        print(f"{'ratio':>8} {medians[f'K = {args.k}'] / medians['K = 1']:8.2f}")


if __name__ == "__main__":
    main()
