"""chorus.fuse: models in, a fused ScriptModule out; every option becomes one of chorus-fuse."""
import contextlib
import io
import json
import logging
import warnings

import torch

from chorus import _core

_log = logging.getLogger("chorus")


def fuse(models, *, example_inputs=None, names=None, loss=None, loss_args=None, optimizer=None, lr=None, **options):
    """Proves that `models` compute the same function of their weights and fuses their training into one module.

    models: ScriptModules, or live nn.Modules, which are traced with `example_inputs` (a tensor or a tuple; one for all
        models); one model with replicate=K. They are left as they are: the fused module has copies of their tensors.
    loss, loss_args: as --loss and --loss-arg, e.g. "cross_entropy", {"label_smoothing": [0.0, 0.1], "weight": tensor}.
    optimizer, lr and further hyperparameters (weight_decay, momentum, betas, nesterov, ...): one value, or a list of K.
        betas is one pair, or a list of K pairs.
    Others, as of chorus-fuse: input (specs of scripted models), replicate, init, seeds, mode, disable, no_verify,
        verify, rtol, atol, hparams. names: of the members; default model_0, model_1, ...

    Returns a module like one loaded from a fused file (docs/contract.md, section 3): forward, loss, train_step,
    chorus_gradients, chorus_update. Raises chorus.Error with the message of the tool where it refuses.
    """
    models = [models] if isinstance(models, torch.nn.Module) else list(models)
    names = [f"model_{k}" for k in range(len(models))] if names is None else [str(name) for name in names]
    if not models:
        raise _core.Error("error: there is no model to fuse")
    if len(names) != len(models) or len(set(names)) != len(names):
        raise _core.Error(f"error: names are {names}: there has to be one for each of {len(models)} models")
    follow = options.get("mode") != "as-traced"
    archives = [_archive(model, example_inputs, name, follow) for model, name in zip(models, names)]
    numbers, tensors = _loss_arguments(loss_args or {})
    arguments = _arguments({"loss": loss, "optimizer": optimizer, "lr": lr, **options}) + numbers
    archive, report, heard = _core.fuse(archives, names, arguments, tensors)
    for kind, text in heard:
        if kind == "warning":
            warnings.warn(text, stacklevel=2)
        _log.info("%s", text)
    with _quiet():
        fused = torch.jit.load(io.BytesIO(archive))
    fused.chorus_report = json.loads(report)
    return fused.train(models[0].training)


def _archive(model, example_inputs, name, follow):
    if not isinstance(model, torch.nn.Module):
        raise _core.Error(f"{name}: error: it is a {type(model).__name__}, no nn.Module or ScriptModule")
    if not isinstance(model, torch.jit.ScriptModule):
        if example_inputs is None:
            raise _core.Error(f"{name}: error: it is a live {type(model).__name__}, and there are no example inputs\n"
                              "  help: give example_inputs=, or script it with torch.jit.script")
        model = _traced(model, example_inputs, name, follow)
    buffer = io.BytesIO()
    with _quiet():
        torch.jit.save(model, buffer)
    return buffer.getvalue()


@contextlib.contextmanager
def _quiet():
    """PyTorch warns of TorchScript itself, and a tracer of every Python branch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _traced(model, example_inputs, name, follow):
    """A trace. To follow the module's mode it is made in train mode also where the model as a whole is in eval mode.

    Tracing runs the model: its buffers, modes and the generator's state are put back.
    """
    examples = example_inputs if isinstance(example_inputs, tuple) else (example_inputs,)
    modes = {module: module.training for module in model.modules()}
    before = [(t, t.detach().clone()) for t in model.buffers()]
    if follow and not model.training:
        model.train()
    try:
        with torch.random.fork_rng(devices=[]), _quiet():
            return torch.jit.trace(model, examples, check_trace=False, strict=False)
    except Exception as failure:
        raise _core.Error(f"{name}: error: torch.jit.trace cannot trace it: {failure}") from failure
    finally:
        for module, training in modes.items():
            module.training = training
        with torch.no_grad():
            for tensor, value in before:
                tensor.copy_(value)


def _arguments(options):
    arguments = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            arguments.append(flag)
        elif name in ("input", "disable"):
            for one in [value] if isinstance(value, str) else value:
                arguments.append(f"{flag}={one}")
        else:
            arguments.append(f"{flag}={_text(value)}")
    return arguments


def _text(value):
    """One value or K as the command line writes them: 1e-3,3e-4 and, for pairs, 0.9,0.999;0.5,0.9."""
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        return str(value)
    pairs = any(isinstance(item, (list, tuple)) for item in value)
    return (";" if pairs else ",").join(map(_text, value))


def _loss_arguments(loss_args):
    numbers, tensors = [], {}
    for name, value in loss_args.items():
        if isinstance(value, torch.Tensor):
            tensors[name] = value
        else:
            numbers.append(f"--loss-arg={name}={_text(value)}")
    return numbers, tensors
