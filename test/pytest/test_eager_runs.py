"""Random recipes of whole runs, every member with numbers of its own, against eager PyTorch (fp64, 1e-9); and their members in another order."""
import pytest
import torch

from chorus_testing import assert_close, export, nudged, state, tool
import eager_runs
from training_case import turns_red

K = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs")
    for net in eager_runs.NETS:
        for k in range(K):
            export(eager_runs.build(net, k), path / f"{net}{k}.pt", torch.zeros(3, eager_runs.C, dtype=torch.float64))
        tool("fuse", *[f"{net}{k}.pt" for k in range(K)], "-o", f"{net}.pt", "--no-verify", cwd=path)
    return path


def members(folder, recipe, model, order=range(K)):
    tool("run", model, *eager_runs.write(recipe, folder), "-o", "t.pt", cwd=folder)
    tool("split", "t.pt", "-o", "parts", "--force", cwd=folder)
    return [state(torch.jit.load(folder / "parts" / f"{recipe['net']}{k}.pt")) for k in order]


@pytest.mark.parametrize("seed", range(24))
def test_runs_are_those_of_pytorch(folder, seed):
    recipe = eager_runs.draw(seed, K)
    got = members(folder, recipe, f"{recipe['net']}.pt")
    for k in range(K):
        want, noisy = (eager_runs.run(recipe, k, nudge) for nudge in (None, nudged))
        assert_close(got[k], want, 1e-9, noisy, what=f"member {k} of {recipe}")


@pytest.mark.parametrize("seed", range(100, 106))
def test_the_order_of_members_changes_no_bit(folder, seed):
    recipe = eager_runs.draw(seed, K)
    recipe["stacked"], recipe["weights"] = False, None if recipe["weights"] == "each" else recipe["weights"]
    got = members(folder, recipe, f"{recipe['net']}.pt")
    turned = eager_runs.reversed_members(recipe)
    tool("fuse", *[f"{recipe['net']}{k}.pt" for k in reversed(range(K))], "-o", "turned.pt", "--no-verify", cwd=folder)
    again = members(folder, turned, "turned.pt")
    for k in range(K):
        for name, want in got[k].items():
            assert torch.equal(again[k][name], want), f"member {k} {name} of {recipe}"


@pytest.mark.parametrize("seed", [3, 10, 19, 23])
def test_members_one_after_another_end_alike(folder, seed):
    """Orders are drawn here; a member's company, its batch sizes for one, changes nothing."""
    recipe = eager_runs.draw(seed, K)
    ends = []
    for how in ([], ["--unfused"]):
        options = list(map(str, eager_runs.write(recipe, folder)))
        options[options.index("--shuffle") + 1] = ["shared", "member"][seed % 2]
        tool("run", f"{recipe['net']}.pt", *options, *how, "-o", "t.pt", cwd=folder)
        tool("split", "t.pt", "-o", "parts", "--force", cwd=folder)
        ends.append([state(torch.jit.load(folder / "parts" / f"{recipe['net']}{k}.pt")) for k in range(K)])
    for k in range(K):
        assert_close(ends[0][k], ends[1][k], 1e-9, what=f"member {k} of {recipe}")


@pytest.mark.parametrize("fault,seed", [("rows_of_member_zero", 17), ("kernel_of_member_zero", 5), ("lr_of_member_zero", 12), ("average_is_last", 22),
                                        ("scored_in_other_batches", 19)])
def test_faults_turn_these_tests_red(folder, monkeypatch, fault, seed):
    turns_red(monkeypatch, fault, test_runs_are_those_of_pytorch, folder, seed)
