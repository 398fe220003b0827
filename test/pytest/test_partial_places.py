# ctest: quick
"""chorus-fuse --partial: members that differ in places train exactly as each of them alone in eager PyTorch."""
import pytest
import torch

from chorus_testing import state
from partial_case import CASES, Case, adam, rates, sgd

OPTIMIZERS = {"sgd": (sgd, ["--optimizer", "sgd", "--momentum", "0.9", "--weight-decay", "0.01"]), "adam": (adam, ["--optimizer", "adam"])}


@pytest.mark.parametrize("name", CASES)
def test_trains_as_each_member_alone(name, tmp_path):
    case = Case(tmp_path, *CASES[name])
    for optimizer, (eager, options) in OPTIMIZERS.items():
        done = case.fuse(*options, "--lr", rates(), out=f"{optimizer}.pt")
        assert "proved equal but for places that differ" in done.stdout and "verified: " in done.stdout, done.stdout
        untouched = case.members(f"{optimizer}.pt")
        for k, mine in enumerate(untouched):
            want = state(case.make(k))
            assert list(mine) == list(want) and all(torch.equal(mine[n], want[n]) for n in want)
        case.run(model=f"{optimizer}.pt")
        case.check(eager, case.members())
