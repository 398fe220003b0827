# ctest: quick
"""Files of chorus-fuse --partial: plain PyTorch trains them, chorus-run treats each member as it would alone, and what does not fit is refused."""
import json

import numpy as np
import pytest
import torch
from torch import nn

from chorus_testing import assert_close, export, state, tool
from partial_case import CASES, K, LRS, N, SEQUENCE, VECTOR, C, Case, Named, mlp, rates, sgd

SGD = ["--optimizer", "sgd", "--momentum", "0.9", "--weight-decay", "0.01"]
SOME = ["activation", "one_odd_in_the_middle", "hidden_width", "kernel", "batch_norm_or_none", "head", "first_layer", "two_regions"]


def case_of(name, folder, *more, optimizer=SGD):
    case = Case(folder, *CASES[name])
    case.fuse(*optimizer, "--lr", rates(), "--no-verify", *more)
    return case


def load(case, name):
    return torch.jit.load(str(case.folder / name))


def info(path):
    extra = {"chorus.json": ""}
    torch.jit.load(str(path), _extra_files=extra)
    return json.loads(extra["chorus.json"])


@pytest.mark.parametrize("name", SOME)
def test_plain_pytorch_trains_the_file(tmp_path, name):
    """torch.jit.load and train_step, saved by PyTorch; the output of member k is its own in both modes."""
    case = case_of(name, tmp_path)
    fused = load(case, "f.pt")
    for mode in (False, True):
        want = torch.stack([case.make(k).train(mode)(case.x) for k in range(K)])
        for x in (case.x, torch.stack([case.x] * K)):
            torch.testing.assert_close(fused.train(mode)(x), want, rtol=1e-5, atol=1e-6)
    fused = load(case, "f.pt")
    for _ in range(8):
        assert fused.train_step(case.x, case.y).shape == (K,)
    fused.save(str(tmp_path / "t.pt"))
    case.check(sgd, case.members())
    assert info(tmp_path / "f.pt")["elastic"] is False


@pytest.mark.parametrize("name", ["activation", "hidden_width", "transformer_depth"])
def test_scripts_too(tmp_path, name):
    case = Case(tmp_path, *CASES[name])
    for k in range(K):
        export(case.make(k), tmp_path / f"m{k}.pt", case.x, kind="script")
    shape = f"f32[{','.join(['N', *map(str, case.x.shape[1:])])}]"
    done = case.fuse(*SGD, "--lr", rates(), "--input", shape)
    assert "verified: " in done.stdout
    case.run()
    case.check(sgd, case.members())


@pytest.mark.parametrize("name", ["hidden_width", "missing_bias", "batch_norm_or_none", "lstm_hidden"])
def test_split_members_are_the_members(tmp_path, name):
    case = case_of(name, tmp_path)
    tool("split", "f.pt", "-o", "members", cwd=tmp_path)
    tool("split", "f.pt", "-o", "states", "--state-dict", cwd=tmp_path)
    for k in range(K):
        original, split = load(case, f"m{k}.pt"), load(case, f"members/m{k}.pt")
        assert [n for n, _ in split.named_parameters()] == [n for n, _ in original.named_parameters()]
        assert list(split.state_dict()) == list(original.state_dict())
        case.make(k).load_state_dict(torch.load(next((tmp_path / "states").glob(f"m{k}.*"))))
        for mode in (False, True):
            torch.testing.assert_close(split.train(mode)(case.x), case.make(k).train(mode)(case.x), rtol=1e-5, atol=1e-6)


def test_a_member_moves_only_itself(tmp_path):
    trained = []
    for scale in (1.0, 1.5):
        folder = tmp_path / str(scale)
        folder.mkdir()
        case = Case(folder, *CASES["hidden_width"])
        net = case.make(1)
        with torch.no_grad():
            for p in net.parameters():
                p.mul_(scale)
        export(net, folder / "m1.pt", case.x)
        case.fuse(*SGD, "--lr", rates(), "--no-verify")
        case.run()
        trained.append(case.members())
    for k in (0, 2):
        assert all(torch.equal(trained[0][k][name], trained[1][k][name]) for name in trained[0][k])
    assert not any(torch.equal(trained[0][1][name], trained[1][1][name]) for name in trained[0][1])


def test_an_inactive_member_keeps_every_byte(tmp_path):
    case = case_of("batch_or_group_norm", tmp_path)
    fused = load(case, "f.pt")
    fused.chorus.active[0] = False
    for _ in range(3):
        fused.train_step(case.x, case.y)
    fused.save(str(tmp_path / "t.pt"))
    for k, mine in enumerate(case.members()):
        before = state(case.make(k))
        moved = [name for name in before if not torch.equal(before[name], mine[name])]
        assert moved == [] if k == 0 else len(moved) > len(before) / 2, (k, moved)


def test_a_run_that_is_resumed_gives_the_same_bytes(tmp_path):
    case = case_of("hidden_width", tmp_path, optimizer=["--optimizer", "adam"])
    case.run(out="whole.pt", epochs=3)
    case.run("--checkpoint", "ckpt", out="part.pt", epochs=1)
    case.run("--resume", "ckpt", out="resumed.pt", epochs=3)
    whole, resumed = load(case, "whole.pt").state_dict(), load(case, "resumed.pt").state_dict()
    assert list(whole) == list(resumed) and all(torch.equal(whole[key], resumed[key]) for key in whole)


OPTIONS = [("--clip-norm", "0.05"), ("--clip-value", "0.01"), ("--ema", "0.9"), ("--accumulate", "2"), ("--epochs", "2,5,8"),
           ("--lr-schedule", "step:step_size=2,gamma=0.5;constant;cosine:T_max=8"), ("--amp", "bf16"), ("--amp", "fp16"), ("--on-nan", "skip")]


def compare_with_runs_alone(case, *options, optimizer=SGD, alone=lambda k, options: options):
    """Against chorus-run of each member alone, which has its own tests against PyTorch."""
    case.run(*options, epochs=8) if "--epochs" not in options else tool(
        "run", "f.pt", "--data", "d.npz", "--batch-size", N, "--shuffle", "none", "-o", "t.pt", *options, cwd=case.folder)
    for k, mine in enumerate(case.members()):
        own = ["--epochs", 8, *alone(k, options)] if "--epochs" not in options else alone(k, options)
        tool("run", f"m{k}.pt", "--data", "d.npz", "--batch-size", N, "--shuffle", "none", "--loss", "mse", *optimizer, "--lr", LRS[k],
             "-o", "alone.pt", *own, cwd=case.folder)
        assert_close(mine, state(load(case, "alone.pt")), 1e-5, moved_from=state(load(case, f"m{k}.pt")), what=f"member {k}")


def own_of(k, options):
    """Member k's of options with K values."""
    name, value = options
    return [name, value.split(";")[k] if ";" in value else value.split(",")[k] if name == "--epochs" else value]


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: "_".join(option).strip("-").partition(":")[0])
@pytest.mark.parametrize("name", ["hidden_width", "batch_norm_or_none"])
def test_what_chorus_run_does_per_member_is_each_members_own(tmp_path, name, option):
    compare_with_runs_alone(case_of(name, tmp_path), *option, alone=own_of)


@pytest.mark.parametrize("name", ["hidden_width", "lstm_hidden", "two_regions"])
def test_the_state_of_the_optimizer_goes_on_here_and_in_pytorch(tmp_path, name):
    """In the file it is padded like the parameters; what leaves has each member's own shapes."""
    case = case_of(name, tmp_path, optimizer=["--optimizer", "adam"])
    case.run(out="whole.pt", epochs=6)
    case.run(out="half.pt", epochs=3)
    case.run("--keep-optimizer", model="half.pt", out="rest.pt", epochs=3)
    whole, rest = case.members("whole.pt"), case.members("rest.pt")
    tool("split", "half.pt", "-o", "states", "--optimizer-state", cwd=tmp_path)
    for k in range(K):
        assert all(torch.equal(tensor, rest[k][key]) for key, tensor in whole[k].items())
        net = case.make(k)
        start = state(load(case, f"states/m{k}.pt"))
        net.load_state_dict(start)
        optimizer = torch.optim.Adam(net.parameters(), lr=LRS[k])
        optimizer.load_state_dict(torch.load(tmp_path / "states" / f"m{k}.optim.pt"))
        for _ in range(3):
            optimizer.zero_grad()
            nn.functional.mse_loss(net(case.x), case.y).backward()
            optimizer.step()
        assert_close(whole[k], state(net), 1e-5, moved_from=start, what=f"member {k}")


def test_a_shared_tensor_is_kept_once_and_untrained(tmp_path):
    def member(width):
        def build():
            middle = {"b": nn.Linear(C, width), "r": nn.ReLU(), "c": nn.Linear(width, C), "s": nn.Tanh(), "d": nn.Linear(C, C)}
            torch.manual_seed(99)
            return Named(a=nn.Linear(C, C), t=nn.Tanh(), **middle)
        return build

    case = Case(tmp_path, [member(width) for width in (3, 5, 7)], VECTOR)
    case.fuse(*SGD, "--lr", rates(), "--share", "a.*")
    shared = [key for key, tensor in load(case, "f.pt").state_dict().items() if key.startswith("a.")]
    assert shared and all(load(case, "f.pt").state_dict()[key].shape[0] == C for key in shared)
    assert "the certificate holds" in tool("fuse", *case.names, "--check", "f.pt", cwd=tmp_path).stdout
    before = state(case.make(0))
    case.run()
    case.run("--unfused", out="unfused.pt")
    fused, alone = (load(case, name).state_dict() for name in ("t.pt", "unfused.pt"))
    assert_close(fused, alone, 1e-5)
    for k, mine in enumerate(case.members()):
        net = case.make(k)
        net.a.requires_grad_(False)
        optimizer = sgd([p for p in net.parameters() if p.requires_grad], k)
        for _ in range(8):
            optimizer.zero_grad()
            nn.functional.mse_loss(net(case.x), case.y).backward()
            optimizer.step()
        assert_close(mine, state(net), 1e-5, moved_from=state(case.make(k)), what=f"member {k}")
        assert torch.equal(mine["a.weight"], before["a.weight"])


def test_averages_of_weights(tmp_path):
    """--swa measures batch norms anew, which it cannot where only some members have them."""
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    compare_with_runs_alone(case_of("hidden_width", tmp_path / "a"), "--swa", "3", alone=lambda k, options: options)
    done = case_of("batch_norm_or_none", tmp_path / "b").run("--swa", "3", ok=False)
    assert done.returncode == 3 and "cannot be measured anew" in done.stderr


@pytest.mark.parametrize("optimizer", ["adamw", "lamb", "lars", "lion", "rmsprop", "adagrad", "adadelta", "nadam", "radam", "adamax", "rprop",
                                       "asgd", "adafactor", "muon"])
def test_every_optimizer_is_right_or_refused(tmp_path, optimizer):
    case = Case(tmp_path, *CASES["hidden_width"])
    done = case.fuse("--optimizer", optimizer, "--lr", rates(), "--no-verify", ok=False)
    if optimizer in ("adafactor", "muon"):
        assert done.returncode in (1, 3) and optimizer in done.stderr
        return
    assert done.returncode == 0, done.stderr
    compare_with_runs_alone(case, optimizer=["--optimizer", optimizer])


def dropped(between, rate):
    return lambda: Named(a=nn.Linear(C, 6), **between, b=nn.Linear(6, 6), d=nn.Dropout(rate), c=nn.Linear(6, C))


@pytest.mark.parametrize("rates_of", [(0.5, 0.5, 0.5), (0.25, 0.5, 0.75)], ids=["same_p", "own_p"])
def test_masks_are_those_of_each_member_alone(tmp_path, rates_of):
    """Dropout in all members, and in the own part of some."""
    builds = [dropped({"r": nn.ReLU(), "e": nn.Dropout(0.25)}, rates_of[0]), dropped({"t": nn.Tanh()}, rates_of[1]),
              dropped({"r": nn.ReLU(), "e": nn.Dropout(0.5)}, rates_of[2])]
    case = Case(tmp_path, builds, VECTOR)
    case.fuse(*SGD, "--lr", rates())
    compare_with_runs_alone(case)


def test_unfused_trains_the_same(tmp_path):
    case = case_of("head", tmp_path)
    case.run("--unfused")
    case.check(sgd, case.members())


def test_predict_and_evaluate(tmp_path):
    case = case_of("batch_norm_or_none", tmp_path)
    tool("run", "f.pt", "--data", "d.npz", "--predict", "out.npz", cwd=tmp_path)
    want = torch.stack([case.make(k).eval()(case.x) for k in range(K)]).detach().numpy()
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["output"], want, rtol=1e-4, atol=1e-6)
    rows = json.loads(tool("run", "f.pt", "--data", "d.npz", "--evaluate", "--json", cwd=tmp_path).stdout)
    assert "loss" in json.dumps(rows)


def test_the_plan_tells_what_is_fused_and_whose_the_rest_is(tmp_path):
    case = Case(tmp_path, *CASES["one_odd_in_the_middle"])
    text = tool("fuse", *case.names, "--partial", "--plan", cwd=tmp_path).stdout
    assert "m1" in text and "gelu" in text and "apart" in text
    plan = json.loads(tool("fuse", *case.names, "--partial", "--plan", "--json", cwd=tmp_path).stdout)
    kinds = {(node["op"], node["kind"]) for node in plan["nodes"]}
    assert ("aten::linear", "fused") in kinds and ("aten::gelu", "fused") not in kinds and ("aten::gelu", "apart") in kinds


def test_equal_members_are_fused_as_ever(tmp_path):
    case = Case(tmp_path, [lambda: mlp()] * 3, VECTOR)
    case.fuse(*SGD, "--lr", rates())
    tool("fuse", *case.names, "-o", "plain.pt", "--loss", "mse", *SGD, "--lr", rates(), cwd=tmp_path)
    assert (tmp_path / "f.pt").read_bytes() == (tmp_path / "plain.pt").read_bytes()
    assert info(tmp_path / "f.pt")["elastic"] is True


def refused(folder, nets, *more, shape=VECTOR):
    names = [export(net, folder / f"n{k}.pt", torch.randn(shape)) for k, net in enumerate(nets)]
    done = tool("fuse", *names, "-o", folder / "f.pt", "--partial", *more, ok=False)
    assert not (folder / "f.pt").exists()
    return done


class Wave(nn.Module):
    def forward(self, x):
        return torch.sin(x) * torch.cos(x)


def test_members_with_nothing_in_common_are_refused(tmp_path):
    done = refused(tmp_path, [nn.Linear(C, C), Wave()])
    assert done.returncode == 1 and "--group" in done.stderr


def test_results_and_inputs_of_other_shapes_are_refused(tmp_path):
    done = refused(tmp_path, [nn.Linear(C, 4), nn.Linear(C, 5)])
    assert done.returncode == 1 and "output 0" in done.stderr
    names = [export(nn.Linear(C, C), tmp_path / "a.pt", torch.randn(VECTOR)),
             export(nn.Sequential(nn.Linear(C, C), nn.ReLU()), tmp_path / "b.pt", torch.randn(SEQUENCE))]
    done = tool("fuse", *names, "-o", tmp_path / "f.pt", "--partial", ok=False)
    assert done.returncode == 1 and "inputs" in done.stderr


def test_partial_and_group_exclude_each_other_or_work(tmp_path):
    done = refused(tmp_path, [mlp(), mlp(nn.GELU)], "--group")
    assert done.returncode == 2 and "--partial" in done.stderr


def test_the_file_is_proved_against_its_members_again(tmp_path):
    case = case_of("hidden_width", tmp_path)
    tool("fuse", *case.names, "--check", "f.pt", cwd=tmp_path)
    case.run(epochs=1)
    tool("fuse", *case.names, "--check", "t.pt", cwd=tmp_path)
    for wrong in (["m1.pt", "m0.pt", "m2.pt"], ["m0.pt", "m1.pt"], ["m0.pt", "m0.pt", "m2.pt"]):
        assert tool("fuse", *wrong, "--check", "f.pt", cwd=tmp_path, ok=False).returncode == 1
    export(case.builds[1](), tmp_path / "m1.pt", case.x)
    done = tool("fuse", *case.names, "--check", "f.pt", cwd=tmp_path, ok=False)
    assert done.returncode == 1 and "other values" in done.stderr


def test_another_members_part_is_found(tmp_path):
    """The check of chorus-fuse itself turns red under the fault."""
    case = Case(tmp_path, *CASES["one_odd_in_the_middle"])
    done = tool("fuse", *case.names, "-o", "f.pt", "--partial", "--loss", "mse", *SGD, "--lr", rates(), cwd=tmp_path, ok=False,
                env={"CHORUS_FAULT": "regions_swapped"})
    assert done.returncode == 70 and "differs from member" in done.stderr
