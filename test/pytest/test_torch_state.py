"""Members go on in PyTorch with their optimizers, and come back: 50 steps here and 50 there equal 100 of PyTorch."""
import functools
import pickle

import pytest
import torch
from torch import nn

from chorus_testing import export, state, tool
from test_optimizers import OPTIMIZERS, Matrices
from training_case import K, eager, make, three, turns_red

STEPS = 50
LOSS = nn.functional.mse_loss


def steps(case, net, optimizer, count=STEPS):
    for _ in range(count):
        optimizer.zero_grad()
        LOSS(net(case.x), case.y).backward()
        optimizer.step()


def whole(case, k, make_optimizer, values):
    """The state after 100 steps, and that of three runs whose initial weights moved by one rounding."""
    want, *noisy = (eager(case, k, lambda net: make_optimizer(net.parameters(), foreach=False, **values), 2 * STEPS, noise=noise)[0]
                    for noise in (False, 1, 2, 3))
    return want, noisy


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_member_goes_on_in_pytorch(both, name):
    option, make_optimizer, values = OPTIMIZERS[name]
    options, each = three(**values)
    both.run("--loss", "mse", "--optimizer", option, *options, epochs=STEPS, out="half.pt")
    tool("split", "half.pt", "-o", "states", "--force", "--state-dict", "--optimizer-state", cwd=both.folder)
    for k in range(K):
        net = make(k, both.dtype)
        net.load_state_dict(torch.load(both.folder / "states" / f"m{k}.pt", weights_only=True))
        optimizer = make_optimizer(net.parameters(), foreach=False)
        optimizer.load_state_dict(torch.load(both.folder / "states" / f"m{k}.optim.pt", weights_only=True))
        steps(both, net, optimizer)
        want, noisy = whole(both, k, make_optimizer, each[k])
        both.close(state(net), want, noisy)


def from_pytorch(case, name, nested=False):
    """Three members that PyTorch trained for 50 steps, fused, and the files of their optimizers."""
    option, make_optimizer, values = OPTIMIZERS[name]
    _, each = three(**values)
    for k in range(K):
        net = make(k, case.dtype)
        optimizer = make_optimizer(net.parameters(), foreach=False, **each[k])
        steps(case, net, optimizer)
        export(net, case.folder / f"p{k}.pt", case.x)
        saved = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 7} if nested else optimizer.state_dict()
        torch.save(saved, case.folder / f"p{k}.optim.pt")
    tool("fuse", "p0.pt", "p1.pt", "p2.pt", "-o", "p.pt", "--no-verify", cwd=case.folder)
    return ["--loss", "mse", "--optimizer", option, "--optimizer-state", ",".join(f"p{k}.optim.pt" for k in range(K))]


def members(case, file):
    tool("split", file, "-o", "members", "--force", cwd=case.folder)
    return [state(torch.jit.load(case.folder / "members" / f"p{k}.pt")) for k in range(K)]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_member_comes_from_pytorch(both, name):
    _, make_optimizer, values = OPTIMIZERS[name]
    _, each = three(**values)
    options = from_pytorch(both, name, nested=name == "adamw")
    both.run(*options, model="p.pt", epochs=STEPS, out="pt.pt")
    got = members(both, "pt.pt")
    for k in range(K):
        want, noisy = whole(both, k, make_optimizer, each[k])
        both.close(got[k], want, noisy)


def test_a_plain_member_comes_and_goes(single):
    """PyTorch, chorus, PyTorch: the file that chorus writes is one that it reads."""
    options = from_pytorch(single, "adam")
    plain = [*options[:-1], "p1.optim.pt"]
    single.run(*plain, model="p1.pt", epochs=6, out="twelve.pt")
    single.run(*plain, model="p1.pt", epochs=3, out="three.pt")
    single.run(*options, model="p.pt", epochs=3, out="k.pt")
    tool("split", "k.pt", "-o", "states", "--force", "--optimizer-state", cwd=single.folder)
    single.run(*options[:-1], "states/p1.optim.pt", model="states/p1.pt", epochs=3, out="again.pt")
    single.close(state(torch.jit.load(single.folder / "again.pt")), state(torch.jit.load(single.folder / "twelve.pt")))


def test_groups_are_found_by_their_names(single):
    def optimizer_of(net):
        named = dict(net.named_parameters())
        return torch.optim.AdamW([{"params": [(n, p) for n, p in named.items() if n.endswith("weight")]},
                                  {"params": [(n, p) for n, p in named.items() if n.endswith("bias")], "weight_decay": 0.0, "lr": 0.1}],
                                 lr=0.05, weight_decay=0.5)

    net, twin = make(1), make(1)
    optimizer, other = optimizer_of(net), optimizer_of(twin)
    steps(single, net, optimizer, 5)
    steps(single, twin, other, 12)
    export(net, single.folder / "g.pt", single.x)
    torch.save(optimizer.state_dict(), single.folder / "g.optim.pt")
    single.run("--loss", "mse", "--optimizer", "adamw", "--optimizer-state", "g.optim.pt", model="g.pt", epochs=7, out="gt.pt")
    single.close(state(torch.jit.load(single.folder / "gt.pt")), state(twin))


def test_muon_goes_and_comes(single):
    torch.manual_seed(0)
    net = Matrices()
    optimizer = torch.optim.Muon(net.parameters(), 0.02, nesterov=False, adjust_lr_fn="match_rms_adamw")
    steps(single, net, optimizer, 5)
    export(net, single.folder / "u.pt", single.x)
    torch.save(optimizer.state_dict(), single.folder / "u.optim.pt")
    single.run("--loss", "mse", "--optimizer", "muon", "--optimizer-state", "u.optim.pt", model="u.pt", epochs=1, out="ut.pt")
    steps(single, net, optimizer, 1)
    got = state(torch.jit.load(single.folder / "ut.pt"))
    for name, want in state(net).items():  # its matrices are bf16
        assert float((got[name] - want).abs().max()) <= 0.01 * float(want.abs().max()), name


def test_options_replace_what_the_file_says(single):
    options = from_pytorch(single, "sgd")
    done = single.run(*options, "--lr", "0", model="p.pt", epochs=2, out="still.pt")
    assert "remark: --lr replaces the value in the file" in done.stderr
    for k, got in enumerate(members(single, "still.pt")):
        assert all(torch.equal(got[n], t) for n, t in state(torch.jit.load(single.folder / f"p{k}.pt")).items())


class Hostile:
    def __reduce__(self):
        return (print, ("called",))


def saved(change, **values):
    net = make(0)
    optimizer = torch.optim.Adam(net.parameters(), **values)
    LOSS(net(torch.ones(2, 3)), torch.ones(2, 3)).backward()
    optimizer.step()
    saved = optimizer.state_dict()
    return change(saved) or saved


def itself():
    items = []
    items.append(items)
    return items


REFUSED = {
    "other optimizer": (lambda s: torch.optim.SGD(make(0).parameters()).state_dict(), "this is no state of torch.optim's 'adam': it has no 'betas'"),
    "adamw": (lambda s: torch.optim.AdamW(make(0).parameters()).state_dict(), "its weight decay is decoupled, that is AdamW"),
    "weights": (lambda s: make(0).state_dict(), "the file holds no state dict of an optimizer"),
    "sizes": (lambda s: s["state"][0].update(exp_avg=torch.zeros(2)), "'exp_avg' of 'first.weight' has sizes [2], but has to have [3, 3]"),
    "steps": (lambda s: s["state"][0].update(step=torch.tensor(3.0)), "has taken 1 steps and 'first.weight' 3"),
    "count": (lambda s: torch.optim.Adam([make(0).first.weight]).state_dict(), "the optimizer moves 1 parameters, but the model has 4"),
    "missing": (lambda s: s["state"].pop(2) and None, "1 parameters have no state"),
    "groups": (lambda s: torch.optim.Adam([{"params": [p]} for p in make(0).parameters()]).state_dict(), "4 parameter groups without names"),
    "class": (lambda s: s.update(extra=Hostile()), "the file holds '__builtin__.print', not only plain data"),
    "module": (lambda s: {"optimizer": s, "model": make(0)}, "not only plain data"),
    "deep": (lambda s: s.update(extra=functools.reduce(lambda inner, _: [inner], range(300), [])), "nests containers deeper than 200"),
    "itself": (lambda s: s.update(extra=itself()), "holds a container that holds itself"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused(single, case, capfd):
    change, message = REFUSED[case]
    torch.save(saved(change), single.folder / "bad.pt")
    done = single.run("--loss", "mse", "--optimizer", "adam", "--optimizer-state", "bad.pt", model="m0.pt", out="none.pt", ok=False)
    assert done.returncode == 1 and "bad.pt: error: " in done.stderr and message in done.stderr, done.stderr
    assert "called" not in done.stdout and not (single.folder / "none.pt").exists()


def test_damaged_files_are_refused(single):
    """Cut or changed anywhere in its pickle, the file is refused or read; nothing else happens."""
    path = single.folder / "whole.optim.pt"
    torch.save(saved(lambda s: None), path)
    data = path.read_bytes()
    start = data.index(b"\x80\x02}")
    for i in range(0, 400, 37):
        for bad in (data[:start + i], data[:start + i] + bytes([data[start + i] ^ 0x15]) + data[start + i + 1:]):
            (single.folder / "bad.pt").write_bytes(bad)
            done = single.run("--loss", "mse", "--optimizer", "adam", "--optimizer-state", "bad.pt", model="m0.pt", out="none.pt", ok=False)
            assert done.returncode == 1 and done.stderr.startswith("bad.pt: error: "), done.stderr
    (single.folder / "bad.pt").write_bytes(pickle.dumps(saved(lambda s: None), protocol=2))
    done = single.run("--loss", "mse", "--optimizer", "adam", "--optimizer-state", "bad.pt", model="m0.pt", out="none.pt", ok=False)
    assert done.returncode == 1 and "the file is not one of torch.save" in done.stderr


def test_wrong_command_lines(single):
    for options, message in ((["--optimizer-state", "x.pt"], "--optimizer names it"),
                             (["--optimizer", "adam", "--optimizer-state", "x.pt", "--keep-optimizer"], "exclude each other")):
        done = single.run("--loss", "mse", *options, ok=False)
        assert done.returncode == 2 and message in done.stderr, done.stderr


def test_a_fault_turns_these_tests_red(single, monkeypatch):
    turns_red(monkeypatch, "torch_state_of_member_zero", test_a_member_goes_on_in_pytorch, single, "adam")
