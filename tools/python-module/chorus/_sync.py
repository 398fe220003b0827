"""chorus.sync_: trained values back into the user's own modules."""
import json

import torch

from chorus import _core


@torch.no_grad()
def sync_(fused, models):
    """Copies member k's parameters and buffers of `fused` into models[k], in place.

    The modules keep their tensors, so optimizers, ties and other references to them stay good. A tensor that several
    models hold together is written once; where its members were trained apart, that is an error and nothing is written.
    """
    models = list(models)
    count = len(fused.member_names)
    if len(models) != count:
        raise _core.Error(f"error: the fused module has {count} members, and there are {len(models)} models")
    values = dict(fused.named_parameters(remove_duplicate=False))
    values.update(fused.named_buffers(remove_duplicate=False))
    facts = json.loads(_chorus(fused).json_text)
    writes = {}  # address of a tensor -> (tensor, value, its first name)
    for k, model in enumerate(models):
        for name, tensor in _own_tensors(model):
            value = _member_value(facts, values, k, name)
            if value is None:
                raise _core.Error(f"error: models[{k}] has a tensor '{name}', which the fused module does not have")
            if value.shape != tensor.shape:
                raise _core.Error(f"error: '{name}' is {list(tensor.shape)} in models[{k}] and {list(value.shape)} in the fused module")
            where = f"models[{k}].{name}"
            key = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride()) if tensor.numel() else id(tensor)
            _, other, first = writes.setdefault(key, (tensor, value, where))
            if other is not value and not torch.equal(torch.nan_to_num(other), torch.nan_to_num(value)):
                raise _core.Error(f"error: {first} and {where} are one tensor, but were trained to different values")
    for tensor, value, _ in writes.values():
        tensor.copy_(value)


def _own_tensors(model):
    yield from model.named_parameters(remove_duplicate=False)
    yield from model.named_buffers(remove_duplicate=False)


def _chorus(fused):
    for name in ("chorus", "chorus_chorus"):
        part = getattr(fused, name, None)
        if hasattr(part, "json_text"):
            return part
    raise _core.Error("error: this is no fused module: it has no submodule 'chorus'")


def _member_value(facts, values, k, name):
    """Member k's slice of what it calls `name`; the fused module names its tensors like the first member."""
    for i, slot in enumerate(facts["slots"]):
        own = facts["own_names"][k]["slots"][i] if facts.get("own_names") else [slot["name"], *slot["aliases"]]
        if name in own:
            value = values[slot["path"]]
            return value[k] if slot["stacked"] else value
    return None
