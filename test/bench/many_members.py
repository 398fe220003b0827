"""Fusing many members of 100 kB in one command through @list.txt: time and peak memory, which should be linear in K.

Prints a row per kind of file and K: seconds of the process, seconds per member, peak resident memory in MB, and that over twice the
sum of the files plus 0.5 GB (should be below 1 where no optimizer state of K members is asked for). `--files N` limits the open files
(ulimit -n). `--symmetric` prints the prover's seconds on graphs of symmetric branches instead (chorus_unit).
"""
import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path


def export(folder, count, kind):
    """In a process of its own: a child's peak memory counts that of the process that forked it."""
    warnings.filterwarnings("ignore")
    import torch
    from torch import nn

    x = torch.randn(4, 64)
    for k in range(count):
        torch.manual_seed(k)
        module = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
        made = torch.jit.script(module) if kind == "script" else torch.jit.trace(module, x, check_trace=False)
        made.save(str(folder / f"{kind}{k}.pt"))


def row(args, folder, kind, k):
    names = [f"{kind}{i}.pt" for i in range(k)]
    size = sum((folder / name).stat().st_size for name in names)
    (folder / "list.txt").write_text("\n".join(names))
    small = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # what is forked from here
    limit = (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (args.files, args.files))) if args.files else None
    begin = time.monotonic()
    training = ["--loss", "cross_entropy", "--optimizer", args.optimizer, "--lr", "1e-3"]
    child = subprocess.Popen([args.bin.resolve() / "chorus-fuse", f"@{folder / 'list.txt'}", "-o", folder / "fused.pt",
                              "--input", "f32[N,64]", "--no-verify", *training], stdout=subprocess.DEVNULL, preexec_fn=limit)
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.monotonic() - begin
    if status:
        sys.exit("chorus-fuse failed")
    peak = max(usage.ru_maxrss, small) * 1024
    print(f"{kind:>7} {k:>6} {seconds:>8.2f} {usage.ru_utime + usage.ru_stime:>8.2f} {1e3 * seconds / k:>10.2f} {peak / 1e6:>8.0f} "
          f"{peak / (2 * size + 5e8):>6.2f}", flush=True)


def symmetric(args):
    found = subprocess.run([args.bin / "chorus_unit", "--gtest_filter=*ProveSymmetric*"], capture_output=True, text=True, check=True)
    print("\n".join(line for line in found.stdout.splitlines() if re.match(r"\w+: \d+ nodes", line)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=os.environ.get("CHORUS_BIN", "build/bin"))
    parser.add_argument("--k", type=int, nargs="+", default=[250, 500, 1000])
    parser.add_argument("--kinds", nargs="+", default=["trace", "script"])
    parser.add_argument("--optimizer", default="adam")
    parser.add_argument("--files", type=int, help="limit of open files")
    parser.add_argument("--symmetric", action="store_true")
    parser.add_argument("--export", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.symmetric:
        return symmetric(args)
    if args.export:
        return export(args.export, max(args.k), args.kinds[0])
    with tempfile.TemporaryDirectory(prefix="chorus-many-") as name:
        folder = Path(name)
        for kind in args.kinds:
            subprocess.run([sys.executable, __file__, "--export", folder, "--k", str(max(args.k)), "--kinds", kind], check=True)
        print(f"{'':>7} {'K':>6} {'seconds':>8} {'cpu s':>8} {'ms/member':>10} {'peak MB':>8} {'limit':>6}")
        for kind in args.kinds:
            for k in sorted(args.k):
                row(args, folder, kind, k)


if __name__ == "__main__":
    main()
