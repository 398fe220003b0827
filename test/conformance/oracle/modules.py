"""One class of PyTorch's module database: K modules of different weights, fused, compared."""
import copy
import random
import warnings

import torch
from torch.testing._internal.common_modules import module_db
from torch.utils import _pytree as pytree

import chorus
from oracle.compare import Verdict, close, widened

torch.set_num_threads(1)
warnings.simplefilter("ignore")

K = 3
CLASSES = {info.name: info for info in module_db}


def names():
    return list(CLASSES)


class Excluded(Exception):
    """PyTorch itself cannot export or run it."""


class Call(torch.nn.Module):
    """A module whose arguments are tensors alone."""

    def __init__(self, module, args, kwargs):
        super().__init__()
        self.module = module
        leaves, self.__dict__["tree"] = pytree.tree_flatten((tuple(args), dict(kwargs)))
        self.__dict__["leaves"] = leaves
        self.__dict__["plain"] = not kwargs and all(isinstance(a, torch.Tensor) for a in args)
        self.__dict__["places"] = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def tensors(self):
        return [self.leaves[i].detach() for i in self.places]

    def forward(self, *tensors):
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        results = tuple(r for r in pytree.tree_leaves(self.module(*args, **kwargs)) if isinstance(r, torch.Tensor))
        if not results:
            raise Excluded("it returns no tensor")
        return results


def spec(tensor):
    names = {torch.int32: "i32", torch.complex64: "c64", torch.complex128: "c128", torch.uint8: "u8",
             torch.float32: "f32", torch.int64: "i64", torch.bool: "bool", torch.float64: "f64"}
    return f"{names[tensor.dtype]}[{','.join(map(str, tensor.shape))}]"


def build(info, given, seed):
    torch.manual_seed(seed)
    return info.module_cls(*given.constructor_input.args, **given.constructor_input.kwargs)


def fuse(calls, kind, tensors):
    if kind == "script":
        if not calls[0].plain:
            raise Excluded("scripted: arguments that are no tensors")
        try:
            models = [torch.jit.script(call.module) for call in calls]
        except Exception as failure:
            raise Excluded(f"torch.jit.script: {str(failure).strip().split(chr(10))[0][:100]}") from failure
        if not hasattr(models[0], "forward") or "forward" not in models[0]._c._method_names():
            raise Excluded("a script of it alone has no forward")
        return chorus.fuse(models, input=[spec(t) for t in tensors], no_verify=True)
    try:
        return chorus.fuse(calls, example_inputs=tuple(tensors), no_verify=True)
    except chorus.Error as refused:
        if "torch.jit.trace cannot trace it" in str(refused):
            raise Excluded(str(refused)[:150]) from refused
        raise


def weights(output):
    """Of a member's output: what its elements count in the loss."""
    generator = torch.Generator().manual_seed(17)
    return torch.rand(output.shape, generator=generator).to(output.dtype) + 0.5


def losses(outputs, stacked):
    total = 0
    for output in outputs:
        if output.requires_grad and output.is_floating_point():
            total = total + (output * weights(output[0] if stacked else output)).sum()
    return total


def run(function, named, tensors, stacked):
    """Outputs, and the gradients of the parameters `named`."""
    outputs = [r for r in pytree.tree_leaves(function(*[t.clone() for t in tensors])) if isinstance(r, torch.Tensor)]
    loss = losses(outputs, stacked)
    wanted = {n: p for n, p in named if p.requires_grad}
    if not isinstance(loss, torch.Tensor) or not wanted:
        return outputs, {}
    grads = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True)
    dense = [g.to_dense() if g is not None and g.is_sparse else g for g in grads]
    return outputs, {n: torch.zeros_like(p) if g is None else g for (n, p), g in zip(wanted.items(), dense)}


def own_names(state):
    return {n.removeprefix("module."): t for n, t in state if not n.startswith("chorus.")}


def compare(fused, calls, tensors):
    """What differs, or ""; eager modules run last: batch norm moves their buffers."""
    outputs, grads = run(fused, own_names(fused.named_parameters()).items(), tensors, True)
    after = own_names(fused.named_buffers())
    for k, call in enumerate(calls):
        want, want_grads = run(call, own_names(call.named_parameters()).items(), tensors, False)
        for j, (got, value) in enumerate(zip(widened(outputs), widened(want))):
            if problem := close(got[k].detach(), value.detach(), 2e-4):
                return f"output {j} of member {k}: {problem}"
        for name, value in want_grads.items():
            if name in grads and (problem := close(grads[name][k], value, 1e-3)):
                return f"gradient of {name}, member {k}: {problem}"
        for name, value in own_names(call.named_buffers()).items():
            if name in after and (problem := close(after[name][k], value, 1e-4)):
                return f"buffer {name}, member {k}: {problem}"
    return ""


def draws(call, tensors):
    def once(seed):
        torch.manual_seed(seed)
        return copy.deepcopy(call)(*[t.clone() for t in tensors])
    return any(not torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) for a, b in zip(once(1), once(2)))


def check_input(info, given, kind, training, verdict):
    members = [build(info, given, 100 + k).train(training) for k in range(K)]
    args = given.forward_input
    if args is None:
        raise Excluded("no input")
    calls = [Call(m, args.args, args.kwargs).train(training) for m in members]
    tensors = calls[0].tensors()
    if not tensors:
        raise Excluded("it takes no tensor")
    try:
        random_module = draws(calls[0], tensors)
    except Excluded:
        raise
    except Exception as failure:
        raise Excluded(f"does not run: {str(failure)[:100]}") from failure
    text = f"{kind}, {'train' if training else 'eval'}, {given.desc or given.constructor_input}"[:160]
    try:
        fused = fuse(calls, kind, tensors).train(training)
        verdict.samples += 1
        verdict.runs += 1
        for decision in fused.chorus_report["nodes"]:
            if decision["kind"] == "per member":
                verdict.per_member[decision["op"]] = decision.get("reason", "")
        if random_module:
            verdict.draws = True
            return
        if problem := compare(fused, calls, tensors):
            verdict.wrong.append(f"{text}: {problem}")
    except chorus.Error as refused:
        note = verdict.crashed if refused.exit_code == 70 else verdict.refused
        note.append(f"{text}: {str(refused).split(chr(10))[0]}")


def check(name, limit, seed):
    """The result of a class, as a dict; see modules.py."""
    info, verdict, excluded = CLASSES[name], Verdict(Excluded), {}
    for training in (True, False):
        torch.manual_seed(seed)
        random.seed(seed)
        try:
            given = list(info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False,
                                                 training=training))
        except Exception as failure:
            return verdict.result(name, f"no inputs: {failure}")
        for one in given[:limit]:
            for kind in ("trace", "script"):
                try:
                    check_input(info, one, kind, training, verdict)
                except Excluded as reason:
                    excluded[str(reason).split("\n")[0][:150]] = True
                except Exception as failure:
                    verdict.crashed.append(f"{kind}: {type(failure).__name__}: {str(failure).split(chr(10))[0][:150]}")
    return verdict.result(name, next(iter(excluded), "no inputs"))
