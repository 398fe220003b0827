"""Networks that people train, against eager PyTorch: K = 2, three steps of SGD with momentum, eval mode, shared and stacked input.

pytest runs one network per family. The whole zoo, with a table: python test/pytest/test_zoo.py [EXPRESSION] [--slow] [--full]
[--json FILE]. --slow: those of more than a minute too; --full: all sizes of the families, hours.
"""
import argparse
import json
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest

if __name__ == "__main__":
    import conftest  # noqa: F401  (paths)

from zoo import Verdict, judge, missing, nets

ALL = nets()


def verdict_of(name, folder, slow=False, full=False):
    net = ALL[name]
    if net.slow and not (slow or full):
        return Verdict("skipped", "takes more than a minute: --slow")
    absent = missing(net)
    if absent:
        return Verdict("skipped", f"needs {', '.join(absent)}")
    return judge(net, folder)


def complaint(net, verdict):
    """What is wrong with the verdict; '' if it is as it should be."""
    if verdict.word == "refused" and net.refused and net.refused in verdict.reason:
        return ""
    if verdict.word in ("refused", "wrong"):
        return verdict.reason
    if verdict.word == "equal" and net.refused:
        return "is fused, and was expected to be refused"
    extra = set(verdict.per_member) - set(net.per_member)
    return f"runs per member: {', '.join(sorted(extra))}" if extra else ""


@pytest.mark.parametrize("name", [name for name, net in ALL.items() if net.quick])
def test_equals_eager(name, tmp_path):
    verdict = verdict_of(name, tmp_path)
    if verdict.word == "skipped":
        pytest.skip(verdict.reason)
    assert complaint(ALL[name], verdict) == ""


def judged(name, arguments):
    """Verdict, and what is wrong with it."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            verdict = verdict_of(name, Path(folder), arguments.slow, arguments.full)
        except Exception as failure:  # PyTorch itself cannot export or train it
            verdict = Verdict("broken", f"{type(failure).__name__}: {str(failure).strip().splitlines()[:1]}")
            return verdict, verdict.reason
    return verdict, complaint(ALL[name], verdict)


def main(arguments):
    rows = []
    for name in [n for n in ALL if re.search(arguments.expression, n) and (arguments.full or not ALL[n].full)]:
        begin = time.time()
        verdict, fault = judged(name, arguments)
        rows.append({"name": name, "verdict": verdict.word, "reason": verdict.reason, "fault": fault,
                     "per_member": dict(verdict.per_member), "seconds": round(time.time() - begin, 1)})
        ops = ", ".join(f"{op} x{n}" for op, n in verdict.per_member.items())
        print(f"{'FAIL' if fault else 'ok  '} {name:48} {verdict.word:8} {rows[-1]['seconds']:5.1f}s  {fault or verdict.reason}"
              f"{'  per member: ' + ops if ops else ''}", flush=True)
        if arguments.json:
            Path(arguments.json).write_text(json.dumps(rows, indent=1))
    counts = Counter(row["verdict"] for row in rows)
    failures = sum(bool(row["fault"]) for row in rows)
    print(f"{', '.join(f'{n} {word}' for word, n in counts.items())}; {failures} not as expected")
    return 1 if failures else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("expression", nargs="?", default="", help="a regular expression that names contain")
    parser.add_argument("--slow", action="store_true", help="networks of more than a minute, too")
    parser.add_argument("--full", action="store_true", help="all sizes of the families, too; hours")
    parser.add_argument("--json", metavar="FILE", help="the table as JSON, written after each network")
    sys.exit(main(parser.parse_args()))
