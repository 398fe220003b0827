"""PyTorch's own operator database as the judge of the batching rules.

    python test/conformance/opinfo.py              the fixed, seeded part that CI runs
    python test/conformance/opinfo.py --full       every sample of every entry
    python test/conformance/opinfo.py -k 'linalg' -v

Each entry of op_db that can be traced and saved is traced, imported and fused; K in {1, 3}; all tensors stacked, each alone
stacked, each alone shared. Slice k of the result, and of the gradients, has to be what the op computes for member k.
Needs the Python module: PYTHONPATH=<build>/python.
"""
import argparse
import collections
import json
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from oracle import pool  # noqa: E402
from oracle.expected import OPS  # noqa: E402

ORDER = ["batched", "random", "per member", "refused", "wrong", "crashed", "excluded"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="every sample (about half an hour on two cores)")
    parser.add_argument("-k", "--only", default="", help="entries whose name matches this regular expression")
    parser.add_argument("--samples", type=int, default=2, help="samples of an entry without --full")
    parser.add_argument("--seed", type=int, default=1, help="chooses the samples")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", help="write all results to this file")
    parser.add_argument("-v", "--verbose", action="store_true", help="print an entry's failures as they come")
    return parser.parse_args()


def problems(results, full):
    """What makes the run fail: wrong results, and entries that the table does not expect, or expects in vain."""
    found = []
    for name, result in sorted(results.items()):
        status, expected = result["status"], OPS.get(name)
        # A part of the samples may do without the one that is refused.
        better = not full and status == "per member" and expected and expected[0] == "refused"
        if status in ("wrong", "crashed"):
            found.append(f"{name}: {status}: {result['reason']}")
        elif status in ("refused", "per member") and (expected is None or expected[0] != status) and not better:
            found.append(f"{name}: {status}, which oracle/expected.py does not say: {result['reason']}")
        elif full and expected is not None and status != expected[0]:
            found.append(f"{name}: is {status}, but oracle/expected.py says '{expected[0]}'")
    return found


def report(results, seconds):
    by_status = collections.defaultdict(list)
    for name, result in sorted(results.items()):
        by_status[result["status"]].append(name)
    for status in ORDER[2:]:
        for name in by_status[status]:
            print(f"{status:10}  {name}: {results[name]['reason']}")
    total = len(results)
    traced = total - len(by_status["excluded"])
    batched = len(by_status["batched"]) + len(by_status["random"])
    print(f"\n{total} entries, {len(by_status['excluded'])} cannot be traced and saved (listed above), {traced} remain")
    print(f"{batched} batched ({100 * batched / max(traced, 1):.1f} %, {len(by_status['random'])} of them draw numbers), "
          f"{len(by_status['per member'])} per member, {len(by_status['refused'])} refused, "
          f"{len(by_status['wrong'])} wrong, {len(by_status['crashed'])} crashed")
    print(f"{sum(r['samples'] for r in results.values())} samples, {sum(r['runs'] for r in results.values())} runs, "
          f"{seconds:.0f} s")


def main():
    options = arguments()
    start = time.time()
    names = [n for n in pool.entries("oracle.ops") if re.search(options.only, n)]
    limit = None if options.full else options.samples
    results = {}
    for name, result in pool.check("oracle.ops", names, limit, options.seed, options.jobs):
        results[name] = result
        if options.verbose and result["status"] not in ("batched", "random"):
            print(f"{result['status']:10}  {name}: {result['reason']}", flush=True)
    report(results, time.time() - start)
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))
    found = problems(results, options.full)
    print(*found, sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
