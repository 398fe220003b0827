"""Fusing many small members in one command through @list.txt: time and peak memory, which should be linear in K.

Prints a row per K: seconds of the process, seconds per member, peak resident memory in MB.
"""
import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path


def export(folder, count):
    """In a process of its own: a child's peak memory counts that of the process that forked it."""
    warnings.filterwarnings("ignore")
    import torch
    from torch import nn

    x = torch.randn(4, 8)
    for k in range(count):
        torch.manual_seed(k)
        module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        torch.jit.trace(module, x, check_trace=False).save(str(folder / f"m{k}.pt"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=os.environ.get("CHORUS_BIN", "build/bin"))
    parser.add_argument("--k", type=int, nargs="+", default=[125, 250, 500, 1000])
    parser.add_argument("--export", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.export:
        return export(args.export, max(args.k))
    with tempfile.TemporaryDirectory(prefix="chorus-many-") as name:
        folder = Path(name)
        subprocess.run([sys.executable, __file__, "--export", folder, "--k", str(max(args.k))], check=True)
        small = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # what is forked from here
        print(f"{'K':>6} {'seconds':>8} {'ms/member':>10} {'peak MB':>8}")
        for k in sorted(args.k):
            (folder / "list.txt").write_text("\n".join(f"m{i}.pt" for i in range(k)))
            begin = time.monotonic()
            child = subprocess.Popen([args.bin.resolve() / "chorus-fuse", f"@{folder / 'list.txt'}", "-o", folder / "fused.pt",
                            "--no-verify", "--loss", "cross_entropy", "--optimizer", "adam", "--lr", "1e-3"],
                                     stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(child.pid, 0)
            seconds = time.monotonic() - begin
            if status:
                sys.exit("chorus-fuse failed")
            peak = max(usage.ru_maxrss, small) / 1024
            print(f"{k:>6} {seconds:>8.2f} {1e3 * seconds / k:>10.2f} {peak:>8.0f}", flush=True)


if __name__ == "__main__":
    main()
