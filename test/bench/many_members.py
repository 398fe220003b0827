"""Fusing many small members in one command through @list.txt: time and peak memory, which should be linear in K.

Prints a row per K: seconds of the process, seconds per member, peak resident memory in MB.
"""
import argparse
import os
import resource
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
import torch
from torch import nn


def export(folder, count):
    x, names = torch.randn(4, 8), []
    for k in range(count):
        torch.manual_seed(k)
        module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        names.append(f"m{k}.pt")
        torch.jit.trace(module, x, check_trace=False).save(str(folder / names[-1]))
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=os.environ.get("CHORUS_BIN", "build/bin"))
    parser.add_argument("--k", type=int, nargs="+", default=[125, 250, 500, 1000])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chorus-many-") as name:
        folder = Path(name)
        names = export(folder, max(args.k))
        print(f"{'K':>6} {'seconds':>8} {'ms/member':>10} {'peak MB':>8}")
        for k in sorted(args.k):  # the peak is that of the largest child so far
            (folder / "list.txt").write_text("\n".join(names[:k]))
            begin = time.monotonic()
            subprocess.run([args.bin.resolve() / "chorus-fuse", f"@{folder / 'list.txt'}", "-o", folder / "fused.pt",
                            "--no-verify", "--loss", "cross_entropy", "--optimizer", "adam", "--lr", "1e-3"], check=True,
                           stdout=subprocess.DEVNULL)
            seconds = time.monotonic() - begin
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            print(f"{k:>6} {seconds:>8.2f} {1e3 * seconds / k:>10.2f} {peak:>8.0f}", flush=True)


if __name__ == "__main__":
    main()
