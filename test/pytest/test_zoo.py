"""Networks that people train, against eager PyTorch: K = 2, three steps of SGD with momentum, eval mode, shared and stacked input.

pytest runs one network per family. The whole zoo, with a table: python test/pytest/test_zoo.py [EXPRESSION] [--slow]
"""
import re
import sys
import tempfile
import time
from pathlib import Path

import pytest

if __name__ == "__main__":
    import conftest  # noqa: F401  (paths)

from zoo import Verdict, judge, missing, nets

ALL = nets()


def verdict_of(name, folder, slow=False):
    net = ALL[name]
    if net.slow and not slow:
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


def main(expression, slow):
    failures, counts = 0, {}
    for name in [n for n in ALL if re.search(expression, n)]:
        begin = time.time()
        with tempfile.TemporaryDirectory() as folder:
            try:
                verdict = verdict_of(name, Path(folder), slow)
            except Exception as failure:  # PyTorch itself cannot export or train it
                verdict = Verdict("broken", f"{type(failure).__name__}: {str(failure).strip().splitlines()[:1]}")
        fault = complaint(ALL[name], verdict) or (verdict.reason if verdict.word == "broken" else "")
        failures += bool(fault)
        counts[verdict.word] = counts.get(verdict.word, 0) + 1
        ops = ", ".join(f"{op} x{n}" for op, n in verdict.per_member.items())
        print(f"{'FAIL' if fault else 'ok  '} {name:48} {verdict.word:8} {time.time() - begin:5.1f}s  {fault or verdict.reason}"
              f"{'  per member: ' + ops if ops else ''}", flush=True)
    print(f"{', '.join(f'{n} {word}' for word, n in counts.items())}; {failures} not as expected")
    return 1 if failures else 0


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--slow"]
    sys.exit(main(words[0] if words else "", "--slow" in sys.argv))
