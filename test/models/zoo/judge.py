"""Fuses K members of a network and compares with eager PyTorch, member by member."""
import json
import re
import warnings
from collections import Counter
from dataclasses import dataclass, field

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


def step(parameters, outputs, optimizer):
    optimizer.zero_grad()
    losses = [loss_of(tensors) for tensors in outputs]
    if not all(isinstance(loss, torch.Tensor) for loss in losses):
        return
    sum(losses).backward()
    optimizer.step()


def slices(output, k):
    return [leaf[k] for leaf in leaves(output)]


def cast(inputs, dtype):
    return tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs)


def run(module, batches, net):
    """Eager steps if the network trains, and the outputs in eval mode: (outputs of each step, outputs)."""
    parameters = [p for p in module.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=net.rate, momentum=0.9) if parameters else None
    module.train()
    seen = []
    for inputs in batches if "train" in net.modes else []:
        outputs = leaves(module(*inputs))
        seen.append([t.detach().clone() for t in outputs])
        step(parameters, [outputs], optimizer)
    with torch.no_grad():
        return seen, leaves(module.eval()(*batches[0]))


def named(tensors, what):
    return {f"{what} {i}": t for i, t in enumerate(tensors)}


def judge(net, folder):
    """Verdict on one network; `folder` holds its files."""
    torch.manual_seed(5)
    batches = [cast(net.inputs(), net.dtype) for _ in range(STEPS)]
    paths = [folder / f"m{k}.pt" for k in range(K)]
    for k, path in enumerate(paths):
        save(seeded(net.build, k, net.dtype).train("train" in net.modes), path, batches[0], net.kind)
    inputs = [a for x in batches[0] for a in ("--input", spec(x))] if net.kind == "script" else []
    done = tool("fuse", *paths, "-o", folder / "fused.pt", "--report", folder / "report.json", *inputs, *net.options, ok=False)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if re.search("error|unsupported|usage", line)]
        return Verdict("refused", f"exit {done.returncode}: {lines[0] if lines else done.stderr[-300:]}")
    report = json.loads((folder / "report.json").read_text())
    per_member = Counter(d["op"] for d in report["nodes"] if d["kind"] == "per member")
    verdict = Verdict("equal", "", per_member)
    if "unchecked" in done.stderr + done.stdout:
        verdict.reason = "; ".join(line for line in (done.stderr + done.stdout).splitlines() if "unchecked" in line)
    try:
        compare(net, folder, batches)
    except Exception as failure:  # whatever goes wrong in a fused file is a wrong result
        verdict.word = "wrong"
        lines = str(failure).strip().splitlines() or [repr(failure)]
        verdict.reason = f"{type(failure).__name__}: {lines[0][:200]} ... {lines[-1][:200]}"
    return verdict


def compare(net, folder, batches):
    fused = torch.jit.load(str(folder / "fused.pt"))
    tolerance = TOLERANCE[net.dtype]
    train = "train" in net.modes
    parameters = [p for p in fused.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=net.rate, momentum=0.9) if parameters else None
    outputs = []
    if train:
        fused.train()
        for inputs in batches:
            output = fused(*inputs)
            outputs.append([[t.detach().clone() for t in slices(output, k)] for k in range(K)])
            step(parameters, [slices(output, k) for k in range(K)], optimizer)
    fused.eval()
    with torch.no_grad():
        evaluated = fused(*batches[0])
        ours = {n: t for n, t in state(fused).items() if not n.startswith("chorus.")}
        stacked = fused(*[torch.stack([x] * K) for x in batches[0]])
    for k in range(K):
        alone = seeded(net.build, k, net.dtype)
        nudges = [nudged(seeded(net.build, k, net.dtype), seed) for seed in NUDGES]
        before = state(alone)
        reference, *noisy = [run(module, batches, net) for module in (alone, *nudges)]
        for i in range(STEPS if train else 0):
            what = f"output of step {i}"
            assert_close(named(outputs[i][k], what), named(reference[0][i], what), tolerance,
                         [named(seen[i], what) for seen, _ in noisy], what=f"member {k}")
        for what, got in (("eval", evaluated), ("eval, stacked input", stacked)):
            ours_now = slices(got, k)
            if net.kind == "trace" and train:  # a trace of train mode keeps auxiliary outputs in eval mode
                ours_now = ours_now[:len(reference[1])]
            assert_close(named(ours_now, what), named(reference[1], what), tolerance, [named(end, what) for _, end in noisy],
                         what=f"member {k}")
        mine = {n: t[k] if n not in fused.shared_names else t for n, t in ours.items()}
        want = state(alone)
        missing = sorted(set(mine) - set(want))
        assert not missing, f"the fused file has tensors of its own: {missing}"
        kept = {n: want[n] for n in mine}
        assert_close(mine, kept, tolerance, [{n: state(nudge)[n] for n in mine} for nudge in nudges],
                     moved_from=before if train else None, what=f"member {k}")
