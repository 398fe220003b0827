"""The optimizer step alone: stacked, with K different rates, against K torch optimizers with fused=True.

One thread, rounds interleaved; prints the median over rounds of PyTorch's time divided by ours (above 1: faster), without and with
the check that every gradient is finite (--on-nan freeze, skip or stop).
"""
import argparse
import os
import statistics
import subprocess
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch

torch.set_num_threads(1)
OPTIMIZERS = {"sgd": lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9, fused=True), "adam": lambda p, lr: torch.optim.Adam(p, lr, fused=True),
              "adamw": lambda p, lr: torch.optim.AdamW(p, lr, fused=True)}


def separate(name, k, tensors, elements, steps):
    optimizers = []
    for m in range(k):
        parameters = [torch.nn.Parameter(torch.randn(elements)) for _ in range(tensors)]
        for p in parameters:
            p.grad = torch.randn(elements)
        optimizers.append(OPTIMIZERS[name](parameters, 1e-3 / (m + 1)))
    for optimizer in optimizers * 3:
        optimizer.step()
    begin = time.perf_counter()
    for _ in range(steps):
        for optimizer in optimizers:
            optimizer.step()
    return (time.perf_counter() - begin) / steps


def stacked(binary, name, k, tensors, elements, steps, *check):
    done = subprocess.run([binary, name, *map(str, (k, tensors, elements, steps)), *check], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", type=Path, default=Path(os.environ.get("CHORUS_BIN", "build/bin")))
    p.add_argument("--rounds", type=int, default=5)
    args = p.parse_args()
    binary = args.bin / "chorus_bench_optimizer"
    for name in OPTIMIZERS:
        for elements, steps in ((1_000, 200), (100_000, 5)):
            rounds = [(separate(name, 8, 20, elements, steps), stacked(binary, name, 8, 20, elements, steps),
                       stacked(binary, name, 8, 20, elements, steps, "check")) for _ in range(args.rounds)]
            ratio, checked = (statistics.median(row[0] / row[i] for row in rounds) for i in (1, 2))
            milliseconds = statistics.median(row[1] for row in rounds) * 1e3
            print(f"{name:6} K=8, 20 tensors of {elements:>7}: {ratio:5.2f}x, checked {checked:5.2f}x  ({milliseconds:.3f} ms a step)")


if __name__ == "__main__":
    main()
