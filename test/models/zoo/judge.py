"""Fuses K members of a network and compares with eager PyTorch, member by member."""
import json
import re
import warnings
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import torch

from chorus_testing import assert_close, nudged, seeded, state, tool

K, STEPS = 2, 3
NUDGES = (7, 8, 9)
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 4e-2, torch.float16: 1e-2}


@dataclass
class Verdict:
    word: str  # equal, refused, wrong, skipped
    reason: str = ""
    per_member: Counter = field(default_factory=Counter)


def leaves(output):
    """The tensors of a nested output, in order."""
    if isinstance(output, torch.Tensor):
        return [output]
    if isinstance(output, dict):
        output = list(output.values())
    return [leaf for item in output if item is not None for leaf in leaves(item)]


def loss_of(tensors):
    """One number that depends on every element of the floating outputs, each in its own way."""
    total = 0.0
    for tensor in tensors:
        if tensor.is_complex():
            tensor = torch.view_as_real(tensor)
        if not tensor.is_floating_point() or not tensor.requires_grad:
            continue
        weights = torch.linspace(0.5, 1.5, max(tensor.numel(), 1), dtype=tensor.dtype).view(tensor.shape)
        finite = torch.where(torch.isfinite(tensor), tensor, torch.zeros_like(tensor))
        total = total + (finite * weights).mean() + 0.1 * (finite * finite).mean()
    return total


def save(module, path, inputs, kind):
    """Traces or scripts the module, which keeps its weights and buffers."""
    before = {n: t.detach().clone() for n, t in module.state_dict().items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "script":
            made = torch.jit.script(module)
        else:
            made = torch.jit.trace(module, inputs, check_trace=False, strict=False)
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            tensor.copy_(before[name])
    made.save(str(path))


def spec(tensor):
    name = {torch.float32: "f32", torch.float64: "f64", torch.int64: "i64", torch.int32: "i32", torch.bool: "bool",
            torch.bfloat16: "bf16", torch.float16: "f16", torch.complex64: "c64", torch.complex128: "c128",
            torch.uint8: "u8"}[tensor.dtype]
    return f"{name}[{','.join(['N', *map(str, tensor.shape[1:])])}]"


def step(net, parameters, outputs, optimizer, labels):
    optimizer.zero_grad()
    losses = [net.loss.eager(tensors, labels) if net.loss else loss_of(tensors) for tensors in outputs]
    if not all(isinstance(loss, torch.Tensor) for loss in losses):
        return
    sum(losses).backward()
    optimizer.step()


def slices(output, k):
    return [leaf[k] for leaf in leaves(output)]


def cast(inputs, dtype):
    return tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs)


@dataclass
class Run:
    """An eager run: state before and after, outputs of each step and in eval mode."""

    before: dict
    seen: list
    evaluated: list
    after: dict


def run(module, batches, labels, net):
    """Eager steps if the network trains, and eval mode."""
    before = state(module)
    parameters = [p for p in module.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=net.rate, momentum=0.9) if parameters else None
    module.train()
    seen = []
    for inputs, y in zip(batches, labels) if "train" in net.modes else []:
        outputs = leaves(module(*inputs))
        seen.append([t.detach().clone() for t in outputs])
        step(net, parameters, [outputs], optimizer, y)
    with torch.no_grad():
        return Run(before, seen, leaves(module.eval()(*batches[0])), state(module))


_last = {}


def references(net, batches, labels):
    """Per member its eager run and those of nudged weights. The last network's are kept: it comes traced and scripted."""
    key = (net.build, net.inputs, net.dtype, net.rate, net.modes, net.full)
    if key not in _last:
        _last.clear()
        runs = []
        for k in range(K):
            alone = seeded(net.build, k, net.dtype)
            nudges = (nudged(seeded(net.build, k, net.dtype), seed) for seed in NUDGES[:1 if net.full else None])
            runs.append([run(module, batches, labels, net) for module in (alone, *nudges)])
        _last[key] = runs
    return _last[key]


def named(tensors, what):
    return {f"{what} {i}": t for i, t in enumerate(tensors)}


def judge(net, folder):
    """Verdict on one network; `folder` holds its files."""
    torch.manual_seed(5)
    batches = [cast(net.inputs(), net.dtype) for _ in range(STEPS)]
    labels = [torch.randint(net.loss.classes if net.loss else 2, (len(batches[0][0]),)) for _ in range(STEPS)]
    paths = [folder / f"m{k}.pt" for k in range(K)]
    for k, path in enumerate(paths):
        try:
            save(seeded(net.build, k, net.dtype).train("train" in net.modes), path, batches[0], net.kind)
        except Exception as failure:
            if net.kind != "script":
                raise
            lines = [line for line in str(failure).splitlines() if line.strip()] or [repr(failure)]
            return Verdict("skipped", f"PyTorch does not script it: {lines[0].strip()[:150]}")
    inputs = [a for x in batches[0] for a in ("--input", spec(x))] if net.kind == "script" else []
    options = [*net.options]
    if net.loss:
        options += ["--loss", net.loss.spec, "--optimizer", "sgd", "--lr", net.rate, "--momentum", 0.9]
    done = tool("fuse", *paths, "-o", folder / "fused.pt", "--report", folder / "report.json", *inputs, *options, ok=False)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if re.search("error|unsupported|usage", line)]
        return Verdict("refused", f"exit {done.returncode}: {lines[0] if lines else done.stderr[-300:]}")
    report = json.loads((folder / "report.json").read_text())
    per_member = Counter(d["op"] for d in report["nodes"] if d["kind"] == "per member")
    verdict = Verdict("equal", "", per_member)
    if "unchecked" in done.stderr + done.stdout:
        verdict.reason = "; ".join(line for line in (done.stderr + done.stdout).splitlines() if "unchecked" in line)
    try:
        compare(net, folder, batches, labels)
    except Exception as failure:  # whatever goes wrong in a fused file is a wrong result
        verdict.word = "wrong"
        lines = str(failure).strip().splitlines() or [repr(failure)]
        verdict.reason = f"{type(failure).__name__}: {lines[0][:200]} ... {lines[-1][:200]}"
    return verdict


def train_fused(net, folder, batches, labels):
    """The fused module after the same steps, and per step and member its outputs (not through chorus-run)."""
    if net.loss:
        np.savez(folder / "data.npz", x=torch.cat([x for x, in batches]).numpy(), y=torch.cat(labels).numpy())
        tool("run", folder / "fused.pt", "--data", folder / "data.npz", "--batch-size", len(labels[0]), "--shuffle", "none",
             "-o", folder / "trained.pt", "--quiet")
        return torch.jit.load(str(folder / "trained.pt")), []
    fused = torch.jit.load(str(folder / "fused.pt"))
    parameters = [p for p in fused.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=net.rate, momentum=0.9) if parameters else None
    outputs = []
    fused.train()
    for inputs, y in zip(batches, labels) if "train" in net.modes else []:
        output = fused(*inputs)
        outputs.append([[t.detach().clone() for t in slices(output, k)] for k in range(K)])
        step(net, parameters, [slices(output, k) for k in range(K)], optimizer, y)
    return fused, outputs


def compare(net, folder, batches, labels):
    tolerance = TOLERANCE[net.dtype]
    train = "train" in net.modes
    fused, outputs = train_fused(net, folder, batches, labels)
    fused.eval()
    with torch.no_grad():
        evaluated = fused(*batches[0])
        ours = {n: t for n, t in state(fused).items() if not n.startswith("chorus.")}
        stacked = fused(*[torch.stack([x] * K) for x in batches[0]])
    for k, (reference, *noisy) in enumerate(references(net, batches, labels)):
        for i, seen in enumerate(outputs):
            what = f"output of step {i}"
            assert_close(named(seen[k], what), named(reference.seen[i], what), tolerance,
                         [named(other.seen[i], what) for other in noisy], what=f"member {k}")
        for what, got in (("eval", evaluated), ("eval, stacked input", stacked)):
            ours_now = slices(got, k)
            if net.kind == "trace" and train:  # a trace of train mode keeps auxiliary outputs in eval mode
                ours_now = ours_now[:len(reference.evaluated)]
            assert_close(named(ours_now, what), named(reference.evaluated, what), tolerance,
                         [named(other.evaluated, what) for other in noisy], what=f"member {k}")
        mine = {n: t[k] if n not in fused.shared_names else t for n, t in ours.items()}
        missing = sorted(set(mine) - set(reference.after))
        assert not missing, f"the fused file has tensors of its own: {missing}"
        assert_close(mine, {n: reference.after[n] for n in mine}, tolerance,
                     [{n: other.after[n] for n in mine} for other in noisy],
                     moved_from=reference.before if train else None, what=f"member {k}")
