"""What a network of the zoo is: how to build it, what it reads, how it is exported."""
from dataclasses import dataclass, field
from typing import Callable, Optional

import torch
from torch import nn

N = 2  # rows; K is 2 too, so that a wrong axis gives wrong numbers instead of an error


@dataclass
class Loss:
    """spec: text of --loss. eager: the same of (outputs as a list, class numbers [N] of `classes`)."""

    spec: str
    eager: Callable
    classes: int


@dataclass
class Net:
    """A network of the zoo.

    build: makes one member, with weights drawn from PyTorch's generator. inputs: makes its input tensors.
    kind: trace or script. eager: what is trained instead of build() as the reference (default: the same).
    per_member: ops that may run once per member, because data decide a shape. refused: part of the message where a refusal is
    what is right. rate: the learning rate; deep networks without trained weights explode at a large one. needs: packages without which the net is skipped.
    slow: takes more than a minute; runs with --slow only. full: one more of a family, of which a smaller one runs; with --full
    only. loss: trains through chorus-run with it, instead of the fused file through PyTorch.
    """

    build: Callable[[], nn.Module]
    inputs: Callable[[], tuple]
    kind: str = "trace"
    dtype: torch.dtype = torch.float64
    per_member: tuple = ()
    refused: str = ""
    needs: tuple = ()
    modes: tuple = ("train", "eval")
    quick: bool = False
    slow: bool = False
    full: bool = False
    loss: Optional["Loss"] = None
    rate: float = 0.05
    options: list = field(default_factory=list)


class Calls(nn.Module):
    """A module whose forward is `function(self, *inputs)`: for networks of one line. Only traced."""

    def __init__(self, function, parameters=None, buffers=None, **modules):
        super().__init__()
        self.function = function
        for name, value in (parameters or {}).items():
            self.register_parameter(name, nn.Parameter(value))
        for name, value in (buffers or {}).items():
            self.register_buffer(name, value)
        for name, value in modules.items():
            self.add_module(name, value)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def without_dropout(module):
    """The same module with every dropout probability 0: a mask drawn by PyTorch differs between a fused and a lone run."""
    for part in module.modules():
        if isinstance(part, (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)):
            part.p = 0.0
        if isinstance(part, nn.MultiheadAttention):
            part.dropout = 0.0
    return module


def rows(*shape):
    """One floating input [N, *shape]."""
    return lambda: (torch.randn(N, *shape, dtype=torch.float64),)


def tokens(length, vocabulary):
    return lambda: (torch.randint(0, vocabulary, (N, length)),)
