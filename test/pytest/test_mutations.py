"""Random networks, and one random edit of one member: an edit that changes the function is refused or carried, others are accepted.

Whatever is accepted is verified by chorus-fuse itself (one training step against the original code) and compared here with
each member in PyTorch, forward in both modes. `CHORUS_MUTATIONS=N` tries N edits.
"""
import collections
import copy
import os
import random

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from chorus_testing import export, tool

N = C = 4
COUNT = int(os.environ.get("CHORUS_MUTATIONS", 36))
ACTIVATIONS = ["relu", "tanh", "sigmoid", "leaky"]


def instruction(op, args, **attributes):
    return {"op": op, "args": list(args), "name": f"part{random.getrandbits(24):06x}", **attributes}


def program(rng, length=9):
    """Values 0 (the input), 1, 2, ...; the last one is the result, and every one is read."""
    made, unread = [], [0]
    for i in range(length):
        pick = lambda: unread.pop(rng.randrange(len(unread))) if unread and rng.random() < 0.7 else rng.randrange(i + 1)
        op = rng.choice(["linear", "linear", "act", "add", "mul", "sub", "scale", "table", "norm", "layer_norm", "softmax"])
        if op in ("add", "mul", "sub"):
            args = [pick(), pick()]
            op = "add" if args[0] == args[1] else op  # x - x has gradients of nothing but rounding
            made.append(instruction(op, args))
        elif op == "act":
            made.append(instruction("act", [pick()], kind=rng.choice(ACTIVATIONS), number=0.1))
        elif op == "linear":
            made.append(instruction("linear", [pick()], bias=True, role="parameter", grad=True))
        else:
            made.append(instruction(op, [pick()], number={"scale": 0.7, "table": 1.0, "softmax": 1}.get(op, 1e-3), momentum=0.1))
        unread.append(i + 1)
    while len(unread) > 1:
        made.append(instruction("add", [unread.pop(0), unread.pop(0)]))
        unread.append(len(made))
    made.append(instruction("linear", [unread[0]], bias=True, role="parameter", grad=True))
    return made


class Net(nn.Module):
    def __init__(self, program, seed):
        super().__init__()
        self.program = program
        g = torch.Generator().manual_seed(seed)
        for step in program:
            part = nn.Module()
            if step["op"] == "linear":
                weight = torch.randn(C, C, generator=g) / 2
                tied = step.get("tied")
                if tied is not None:
                    part.weight = getattr(self, tied).weight
                elif step["role"] == "buffer":
                    part.register_buffer("weight", weight)
                else:
                    part.weight = nn.Parameter(weight, requires_grad=step["grad"])
                part.bias = nn.Parameter(torch.randn(C, generator=g)) if step["bias"] else None
            if step["op"] == "norm":
                part = nn.BatchNorm1d(C, eps=step["number"], momentum=step["momentum"])
            if step["op"] == "layer_norm":
                part = nn.LayerNorm(C, eps=step["number"])
            setattr(self, step["name"], part)

    def run(self, step, values):
        part, x = getattr(self, step["name"]), values[step["args"][0]]
        y = values[step["args"][-1]]
        if step["op"] == "act":
            return F.leaky_relu(x, step["number"]) if step["kind"] == "leaky" else getattr(torch, step["kind"])(x)
        return {"linear": lambda: F.linear(x, part.weight, part.bias), "add": lambda: x + y, "mul": lambda: x * y, "sub": lambda: x - y,
                "scale": lambda: x * step["number"], "table": lambda: x * (torch.arange(1.0, C + 1) / 3 * step["number"]),
                "norm": lambda: part(x), "layer_norm": lambda: part(x),
                "softmax": lambda: torch.softmax(x, int(step["number"]))}[step["op"]]()

    def forward(self, x):
        values = {0: x}
        for i in self.program_order():
            values[i + 1] = self.run(self.program[i], values)
        return values[len(self.program)]

    def program_order(self):
        return self.order if hasattr(self, "order") else range(len(self.program))


def choose(rng, program, *ops):
    found = [i for i, step in enumerate(program) if step["op"] in ops]
    return rng.choice(found) if found else None


def edit(rng, program):
    """(name, expectation, the edited program); None where the edit does not apply."""
    kind = rng.choice(["activation", "number", "number", "number", "momentum", "softmax", "wiring", "swap_sub", "swap_add", "rename", "dead",
                       "tie", "role", "grad", "bias"])
    made = copy.deepcopy(program)
    target = {"activation": ["act"], "number": ["scale", "table", "norm", "layer_norm"], "momentum": ["norm"], "softmax": ["softmax"],
              "wiring": ["add", "mul", "sub"], "swap_sub": ["sub"], "swap_add": ["add", "mul"], "dead": ["linear"], "tie": ["linear"],
              "role": ["linear"], "grad": ["linear"], "bias": ["linear"], "rename": ["linear"]}[kind]
    at = choose(rng, made, *target)
    if at is None:
        return None
    step = made[at]
    if kind == "activation":
        step["kind"] = rng.choice([a for a in ACTIVATIONS if a != step["kind"]])
    if kind == "number":
        step["number"] *= rng.choice([0.5, 3.0])
    if kind == "momentum":
        step["momentum"] = 0.4
    if kind == "softmax":
        step["number"] = 0
    if kind == "wiring":
        step["args"][rng.randrange(2)] = rng.randrange(at + 1)
    if kind in ("swap_sub", "swap_add"):
        step["args"].reverse()
    if kind == "rename":
        for other in made:
            other["name"] = "x" + other["name"][::-1]
    if kind == "dead":
        made = [*made[:-1], made[-1]]
        made.insert(len(made) - 1, instruction("scale", [at], number=2.0))
        made[-1] = {**made[-1], "args": [a if a < len(made) - 1 else a for a in made[-1]["args"]]}
    if kind == "tie":
        others = [i for i, other in enumerate(made) if other["op"] == "linear" and i < at]
        if not others:
            return None
        step["tied"] = made[rng.choice(others)]["name"]
    if kind == "role":
        step["role"] = "buffer"
    if kind == "grad":
        step["grad"] = False
    if kind == "bias":
        step["bias"] = False
    expectation = {"number": "carried", "momentum": "carried", "swap_add": "accepted", "rename": "accepted", "dead": "accepted"}.get(kind, "refused")
    if kind in ("wiring", "swap_sub") and same_function(program, made):
        expectation = "any"
    return kind, expectation, made


def outputs(program, mode):
    net = Net(program, 5)
    net.train(mode)
    return net(torch.randn(N, C, generator=torch.Generator().manual_seed(1)))


def same_function(a, b):
    return all(torch.allclose(outputs(a, mode), outputs(b, mode), equal_nan=True) for mode in (True, False))


def compare(folder, nets):
    fused = torch.jit.load(str(folder / "f.pt"))
    x = torch.randn(N, C, generator=torch.Generator().manual_seed(2))
    for mode in (True, False):
        fused.train(mode)
        got = fused(x)
        for k, net in enumerate(nets):
            net.train(mode)
            torch.testing.assert_close(got[k], net(x), rtol=1e-3, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("start", range(0, COUNT, 12))
def test_every_edit_is_refused_carried_or_accepted_as_it_should(tmp_path, start):
    counts = collections.Counter()
    for seed in range(start, min(start + 12, COUNT)):
        rng = random.Random(seed)
        random.seed(seed)
        base = program(rng)
        change = None
        while change is None:
            change = edit(rng, base)
        kind, expectation, changed = change
        programs = [base, base, base]
        odd = rng.randrange(3)
        programs[odd] = changed
        nets = [Net(p, 10 + k) for k, p in enumerate(programs)]
        files = [export(net, tmp_path / f"m{k}.pt", torch.randn(N, C)) for k, net in enumerate(nets)]
        done = tool("fuse", *files, "-o", tmp_path / "f.pt", "--loss", "mse", "--optimizer", "sgd", "--lr", "0.01", ok=False)
        what = f"seed {seed}: {kind} of member {odd}: {done.stderr}"
        if expectation == "refused":
            assert done.returncode == 1 and f"m{odd}.pt" in done.stderr, what
        elif expectation != "any":
            assert done.returncode == 0, what
        if done.returncode == 0:
            compare(tmp_path, nets)
        counts[f"{kind}: {expectation}"] += 1
    print(dict(counts))
