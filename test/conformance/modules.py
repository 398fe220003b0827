"""All of torch.nn as the judge: every class of PyTorch's module database, fused, against its members one by one.

    python test/conformance/modules.py             traced and scripted, train and eval mode, the first inputs of each
    python test/conformance/modules.py --full      all inputs

K = 3 modules of different weights and one shared input: outputs, gradients of parameters and inputs, and buffers afterwards.
Needs the Python module: PYTHONPATH=<build>/python.
"""
import argparse
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from oracle import pool  # noqa: E402
from oracle.expected import MODULES  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="every input")
    parser.add_argument("-k", "--only", default="", help="classes whose name matches this regular expression")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    start, results = time.time(), {}
    names = [n for n in pool.entries("oracle.modules") if re.search(options.only, n)]
    for name, result in pool.check("oracle.modules", names, None if options.full else 2, 1, options.jobs):
        results[name] = result
        if result["status"] != "batched":
            print(f"{result['status']:10}  {name}: {result['reason']}", flush=True)
    counts = {s: sum(r["status"] == s for r in results.values())
              for s in ("batched", "random", "per member", "refused", "wrong", "crashed", "excluded")}
    print(f"{len(results)} classes: " + ", ".join(f"{n} {s}" for s, n in counts.items()) + f"; {time.time() - start:.0f} s")
    found = [f"{name}: {r['status']}, and oracle/expected.py says {MODULES.get(name, ('batched',))[0]}"
             for name, r in sorted(results.items())
             if r["status"] not in ("batched", "random", "excluded") and MODULES.get(name, ("",))[0] != r["status"]]
    found += [f"{name}: is {results[name]['status']}, but oracle/expected.py says '{MODULES[name][0]}'"
              for name in sorted(results) if options.full and name in MODULES and results[name]["status"] != MODULES[name][0]]
    print(*found, sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
