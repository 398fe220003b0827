"""The comparison: a traced function, fused in every way, against the function member by member."""
import io
import re

import torch

import chorus
from chorus import _core


class Verdict:
    """What the samples of one entry have shown so far."""

    def __init__(self, excluded):
        self.Excluded = excluded
        self.samples = self.runs = 0
        self.draws = False
        self.wrong, self.refused, self.per_member, self.crashed = [], [], {}, []

    def result(self, name, excluded_reason):
        status, reason = "batched", ""
        if self.crashed:
            status, reason = "crashed", self.crashed[0]
        elif self.wrong:
            status, reason = "wrong", self.wrong[0]
        elif self.refused:
            status, reason = "refused", self.refused[0]
        elif self.per_member:
            status, reason = "per member", "; ".join(f"{op}: {why}" for op, why in sorted(self.per_member.items()))
        elif not self.samples:
            status, reason = "excluded", excluded_reason
        elif self.draws:
            status = "random"
        return {"status": status, "reason": reason, "samples": self.samples, "runs": self.runs,
                "failures": [len(self.crashed), len(self.wrong), len(self.refused)]}


def describe(call):
    shapes = ", ".join(f"{str(t.dtype)[6:]}{list(t.shape)}" for t in call.tensors())
    return f"({shapes}; {', '.join(call.others())[:120]})"


def outputs_of(function, tensors):
    result = function(*tensors)
    return widened(list(result) if isinstance(result, (tuple, list)) else [result])


def widened(outputs):
    """Half complex numbers have too few ops to be compared with."""
    return [o.to(torch.complex64) if o.dtype == torch.complex32 else o for o in outputs]


def close(got, want, tolerance):
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if not (want.is_floating_point() or want.is_complex()):
        return "" if torch.equal(got, want) else "other values"
    if not want.numel():
        return ""
    finite = torch.isfinite(want)
    if not torch.equal(finite, torch.isfinite(got)):
        return "other places are not finite"
    if not torch.equal(torch.nan_to_num(want[~finite]), torch.nan_to_num(got[~finite])):
        return "other infinities"
    if not finite.any():
        return ""
    scale = float(want[finite].abs().max())
    error = float((got[finite] - want[finite]).abs().max())
    return "" if error <= tolerance * max(scale, 1e-3) else f"off by {error:.2e} of {scale:.2e}"


def tolerance_of(tensors):
    wide = any(t.dtype in (torch.float64, torch.complex128) for t in tensors)
    return 1e-9 if wide else 2e-4


def traced_archive(call, tensors, excluded):
    try:
        traced = torch.jit.trace(call, tuple(t.clone() for t in tensors), check_trace=False, strict=False)
        buffer = io.BytesIO()
        torch.jit.save(traced, buffer)
    except excluded:
        raise
    except Exception as failure:
        text = str(failure).strip().split("\n")[0][:120]
        raise excluded(f"torch.jit.trace: {type(failure).__name__}: {text}") from failure
    return traced, buffer.getvalue()


def draws_numbers(function, tensors):
    def run(seed):
        torch.manual_seed(seed)
        return outputs_of(function, [t.clone() for t in tensors])
    return any(not torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) if a.shape == b.shape else True
               for a, b in zip(run(1), run(2)))


def choices(n):
    """Which tensors are stacked: all, each alone, all but each."""
    made = [(True,) * n]
    made += [tuple(i == j for i in range(n)) for j in range(n)]
    made += [tuple(i != j for i in range(n)) for j in range(n)] if n > 2 else []
    return list(dict.fromkeys(made))


def differentiable(tensor):
    return tensor.is_floating_point() or tensor.is_complex()


def run_eagerly(call, tensors, places):
    """Outputs, and gradients by the tensors at `places` (None: there are none)."""
    leaves = [t.clone().requires_grad_(i in places) for i, t in enumerate(tensors)]
    outputs = outputs_of(call, leaves)
    return [o.detach() for o in outputs], gradients(outputs, leaves, make_cotangents(outputs)) if places else None


def gradient_places(call, tensors):
    """Tensors that the op has a gradient for: all of floats, or those that work alone."""
    def works(places):
        try:
            return run_eagerly(call, tensors, places)[1] is not None
        except Exception:
            return False
    floats = {i for i, t in enumerate(tensors) if differentiable(t)}
    if works(floats):
        return floats
    alone = {i for i in floats if works({i})}
    return alone if works(alone) else set()


def gradients(outputs, leaves, cotangents):
    loss = 0
    for output, cotangent in zip(outputs, cotangents):
        if output.requires_grad:
            loss = loss + (output * cotangent).sum().abs() if output.is_complex() else loss + (output * cotangent).sum()
    if not isinstance(loss, torch.Tensor):
        return None
    wanted = [t for t in leaves if t.requires_grad]
    found = torch.autograd.grad(loss, wanted, allow_unused=True)
    dense = [g.to_dense() if g is not None and g.is_sparse else g for g in found]
    return [dense.pop(0) if t.requires_grad else None for t in leaves]


def make_cotangents(outputs):
    made = []
    for output in outputs:
        generator = torch.Generator().manual_seed(17)
        values = torch.rand(output.shape, generator=generator) + 0.5
        made.append(values.to(output.real.dtype if output.is_complex() else output.dtype)
                    if differentiable(output) else None)
    return made


def member_tensors(members, stacked, k):
    return [members[k][i] if s else members[0][i] for i, s in enumerate(stacked)]


def solo_runs(call, members, stacked, places):
    return [run_eagerly(call, member_tensors(members, stacked, k), places) for k in range(len(members))]


def compare_runs(fused_outputs, fused_grads, runs, stacked, tolerance):
    for j, output in enumerate(fused_outputs):
        wants = [run[0][j] for run in runs]
        if any(w.shape != wants[0].shape for w in wants):
            return f"output {j}: members have different shapes"
        if problem := close(output.detach(), torch.stack(wants), tolerance):
            return f"output {j}: {problem}"
    if fused_grads is None or any(run[1] is None for run in runs):
        return ""
    for i, is_stacked in enumerate(stacked):
        wants = [run[1][i] for run in runs]
        got = fused_grads[i]
        if all(w is None for w in wants) and (got is None or not got.any()):
            continue
        like = next((w for w in wants if w is not None), None)
        if like is None:
            return f"gradient {i}: not zero"
        wants = [torch.zeros_like(like) if w is None else w for w in wants]
        want = torch.stack(wants) if is_stacked else sum(wants)
        got = torch.zeros_like(want) if got is None else got
        if problem := close(got, want, 5 * tolerance):
            return f"gradient {i}: {problem}"
    return ""


def run_fused(function, members, stacked, runs, places):
    """The outputs, the gradients, the decisions."""
    leaves = []
    for i, is_stacked in enumerate(stacked):
        value = torch.stack([m[i] for m in members]) if is_stacked else members[0][i].clone()
        leaves.append(value.requires_grad_(i in places))
    outputs, decisions = function.run(list(stacked), leaves)
    outputs = widened(outputs)
    if not places or any(o.is_complex() for o in outputs) or any(run[1] is None for run in runs):
        return outputs, None, decisions
    cotangents = []
    for solo in zip(*[make_cotangents(run[0]) for run in runs]):
        cotangents.append(None if solo[0] is None else torch.stack(list(solo)))
    grads = gradients(outputs, leaves, cotangents)
    return outputs, grads if grads is not None else [None] * len(leaves), decisions


def is_faithful(traced, call, members):
    """Does the trace compute what the op computes, also for the other members?"""
    for tensors in members:
        try:
            got, want = outputs_of(traced, [t.clone() for t in tensors]), outputs_of(call, [t.clone() for t in tensors])
        except Exception:
            return False
        if any(a.shape != b.shape or a.dtype != b.dtype or close(a, b, tolerance_of(tensors)) for a, b in zip(got, want)):
            return False
    return True


def in_double(members):
    widen = {torch.float32: torch.float64, torch.complex64: torch.complex128}
    return [[t.to(widen.get(t.dtype, t.dtype)) for t in tensors] for tensors in members]


def judge(call, members, verdict):
    """Adds to `verdict` what all choices of stacked tensors show; raises Excluded where the trace says nothing."""
    traced, archive = traced_archive(call, members[0], verdict.Excluded)
    if any(o.layout != torch.strided for o in outputs_of(traced, members[0])):
        raise verdict.Excluded("sparse results")
    undefined = re.search(r"aten::(new_)?empty", str(traced.inlined_graph))
    random_op = bool(undefined) or draws_numbers(traced, members[0])  # the database's own functions set a seed
    if not random_op and not is_faithful(traced, call, members):
        raise verdict.Excluded("the trace bakes data")
    verdict.samples += 1
    verdict.draws |= random_op
    try:
        function = _core.Function(archive)
    except chorus.Error as refused:
        note_refusal(verdict, refused, call)
        return
    # A write without a gradient keeps the history of parameters only; here all tensors are inputs.
    writes = "embedding_renorm_" in str(traced.inlined_graph)
    places = set() if random_op or writes else gradient_places(call, members[0])
    for stacked in choices(len(members[0])):
        for some in (members, members[:1]) if all(stacked) else (members,):
            judge_choice(Choice(call, some, stacked, places, random_op), function, verdict)


class Choice:
    """One way to run a function: K members, which tensors are stacked, which have gradients."""

    def __init__(self, call, members, stacked, places, draws):
        self.call, self.members, self.stacked, self.places, self.draws = call, members, stacked, places, draws
        self.text = "".join("S" if s else "-" for s in stacked) + f" K={len(members)}"


def note_refusal(verdict, refused, call, stacked=""):
    lines = [line.strip() for line in str(refused).replace("/proc/self/fd/", "").strip().split("\n")]
    interpreter = "failed in the TorchScript interpreter" in lines[0]  # the cause is in its last lines
    text = f"{' '.join(lines[-2:])[-300:] if interpreter else lines[0]} {stacked} {describe(call)}"
    (verdict.crashed if refused.exit_code == 70 else verdict.refused).append(text)


def judge_choice(choice, function, verdict):
    verdict.runs += 1
    try:
        runs = solo_runs(choice.call, choice.members, choice.stacked, choice.places)
    except Exception:  # the op refuses this mix of members' tensors
        return
    try:
        outputs, grads, decisions = run_fused(function, choice.members, choice.stacked, runs, choice.places)
    except chorus.Error as refused:
        note_refusal(verdict, refused, choice.call, choice.text)
        return
    except Exception as failure:
        verdict.crashed.append(f"{choice.text} {describe(choice.call)}: {str(failure).strip().split(chr(10))[-1][:200]}")
        return
    for op, kind, reason in decisions:
        if kind == "per member":
            verdict.per_member[op] = reason
    if choice.draws:
        bad = [f"output {j}: {list(o.shape)}" for j, o in enumerate(outputs)
               if list(o.shape) != [len(choice.members), *runs[0][0][j].shape] or o.dtype != runs[0][0][j].dtype]
        problem = bad[0] if bad else ""
    else:
        problem = compare_runs(outputs, grads, runs, choice.stacked, tolerance_of(choice.members[0]))
    if problem and (choice.draws or not rounds(choice, verdict)):
        verdict.wrong.append(f"{choice.text} {describe(choice.call)}: {problem}")


def rounds(choice, verdict):
    """Is a difference in float32 gone in float64? Then it was rounding, which the op amplifies."""
    wide = in_double(choice.members)
    if all(t.dtype == w.dtype for t, w in zip(choice.members[0], wide[0])):
        return False
    try:
        _, archive = traced_archive(choice.call, wide[0], verdict.Excluded)
        runs = solo_runs(choice.call, wide, choice.stacked, choice.places)
        outputs, grads, _ = run_fused(_core.Function(archive), wide, choice.stacked, runs, choice.places)
    except Exception:
        return False
    return not compare_runs(outputs, grads, runs, choice.stacked, 1e-7)
