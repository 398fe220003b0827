"""One entry of PyTorch's operator database: traced, imported, fused, compared."""
import random
import warnings

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from oracle.compare import Verdict, judge

torch.set_num_threads(1)
warnings.simplefilter("ignore")

K = 3
ENTRIES = {op.name + ("." + op.variant_test_name if op.variant_test_name else ""): op for op in op_db}


def names():
    return list(ENTRIES)


class Excluded(Exception):
    """This sample says nothing: PyTorch itself cannot export it."""


def _dtype(op):
    for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64):
        if dtype in op.dtypes:
            return dtype
    raise Excluded("no dtype on the CPU")


def _samples(op, dtype, seed):
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    return list(op.sample_inputs("cpu", dtype, requires_grad=False))


class Call(torch.nn.Module):
    """An op with everything but its tensors fixed."""

    def __init__(self, op, sample):
        super().__init__()
        leaves, self.__dict__["tree"] = pytree.tree_flatten((sample.input, tuple(sample.args), dict(sample.kwargs)))
        self.__dict__["op"] = op
        self.__dict__["leaves"] = leaves
        self.__dict__["places"] = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def tensors(self):
        return [self.leaves[i].detach() for i in self.places]

    def others(self):
        return [repr(leaf) for leaf in self.leaves if not isinstance(leaf, torch.Tensor)]

    def forward(self, *tensors):
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors):
            leaves[place] = tensor
        first, args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        result = pytree.tree_leaves(self.op.op(first, *args, **kwargs))
        kept = tuple(r for r in result if isinstance(r, torch.Tensor))
        if not kept:
            raise Excluded("it returns no tensor")
        return kept if len(kept) > 1 else kept[0]


def _varied(tensor, k):
    return tensor * (1 + 0.03 * k) if tensor.is_floating_point() or tensor.is_complex() else tensor


def _same_kind(a, b):
    return (a.tree == b.tree and a.others() == b.others() and
            [(t.shape, t.dtype) for t in a.tensors()] == [(t.shape, t.dtype) for t in b.tensors()])


def _members(calls):
    """Tensors of K members: of samples drawn apart, or the first one's, moved a little."""
    first = calls[0]
    if all(_same_kind(first, call) for call in calls[1:]):
        yield [call.tensors() for call in calls]
    yield [[_varied(t, k) for t in first.tensors()] for k in range(len(calls))]


def _check_exportable(call):
    tensors = call.tensors()
    if not tensors:
        raise Excluded("it takes no tensor")
    for tensor in tensors:
        if tensor.layout != torch.strided or tensor.is_quantized:
            raise Excluded("sparse or quantized tensors")


def check_sample(calls, verdict):
    call = calls[0]
    _check_exportable(call)
    reason = ""
    for members in _members(calls):
        try:
            judge(call, members, verdict)
            return
        except Excluded as excluded:
            reason = str(excluded)
    raise Excluded(reason)


def check(name, limit, seed):
    """The result of an entry, as a dict; see opinfo.py."""
    op, verdict, excluded = ENTRIES[name], Verdict(Excluded), {}
    try:
        dtype = _dtype(op)
        drawn = [_samples(op, dtype, 1000 * seed + k) for k in range(K)]
    except Exception as failure:  # a broken entry of the database
        return verdict.result(name, f"no samples: {failure}")
    count = min(map(len, drawn))
    chosen = range(count)
    if limit is not None and count > limit:
        chosen = sorted(random.Random(f"{name} {seed}").sample(range(count), limit))
    for i in chosen:
        try:
            check_sample([Call(op, samples[i]) for samples in drawn], verdict)
        except Excluded as reason:
            excluded[str(reason).split("\n")[0][:150]] = i
        except Exception as failure:
            verdict.crashed.append(f"sample {i}: {type(failure).__name__}: {str(failure).split(chr(10))[0][:150]}")
    return verdict.result(name, next(iter(excluded), "no samples"))
