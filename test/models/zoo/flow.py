"""Control flow: branches and loops on sizes, shared inputs, and a member's own data; shapes that data decide."""
from typing import Dict, List, Optional

import torch
from torch import nn

from .case import N, Net, rows

C = 3


class Layered(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(C, C), nn.Linear(C, C)


class OnBatchSize(Layered):
    def forward(self, x):
        y = self.a(x)
        if x.size(0) > 3:
            y = self.b(y)
        else:
            y = torch.tanh(y) * 2
        return y


class OnInput(Layered):
    """The condition reads the shared input: all members go one way."""

    def forward(self, x):
        if x.sum() > 0:
            return self.a(x)
        return self.b(x) - 1


class OnOwnData(Layered):
    """The condition reads what a member computed: each goes its own way."""

    def forward(self, x):
        y = self.a(x)
        if y.mean() > 0:
            y = self.b(y)
        else:
            y = y - y.mean()
        return y


class Tripping(Layered):
    """A loop as long as the batch has rows."""

    def forward(self, x):
        y = self.a(x)
        total = torch.zeros_like(y[0])
        for i in range(x.size(0)):
            total = torch.tanh(total + y[i])
        return self.b(total)[None] + y


class TripsOfInput(Layered):
    """A loop whose length an input gives."""

    def forward(self, x, trips):
        for _ in range(int(trips[0])):
            x = torch.tanh(self.a(x))
        return self.b(x)


class UntilSettled(Layered):
    """A member stops when its own state has settled."""

    def forward(self, x):
        y = self.a(x)
        steps = 0
        while bool(y.abs().max() > 0.3) and steps < 20:
            y = 0.5 * y
            steps += 1
        return self.b(y) + steps


class Growing(Layered):
    """Rows that a member's own data choose, reduced again."""

    def forward(self, x):
        y = self.a(x)
        kept = y[y[:, 0] > -0.5]
        return self.b(y) + kept.sum(0) / (kept.size(0) + 1)


class Masked(Layered):
    def forward(self, x):
        y = self.a(x)
        chosen = torch.masked_select(y, y > 0)
        out = y.clone()
        out[y > 0] = chosen * 2
        return self.b(out)


class Items(Layered):
    """Numbers read from tensors, as operands and as sizes."""

    def forward(self, x):
        y = self.a(x)
        scale = y.abs().max().item()
        n = int((y[:, 0] > 0).sum().item()) + 1
        return self.b(y) * scale + y[:n].sum(0)


class Nonzero(Layered):
    def forward(self, x):
        y = self.a(x)
        places = torch.nonzero(y > 0)
        return self.b(y) + places.to(y.dtype).sum() * 0.1


class Containers(Layered):
    """Lists, dicts, optionals and tuples of tensors under shared branches."""

    def forward(self, x, flag: bool = True):
        found: Dict[str, torch.Tensor] = {"x": x}
        last: Optional[torch.Tensor] = None
        outs: List[torch.Tensor] = []
        for i in range(3):
            y = self.a(found["x"])
            if last is not None:
                y = y + last
            last = torch.tanh(y)
            found["x"] = last
            outs.append(last)
        pair = (outs[0], self.b(outs[-1]))
        return {"sum": pair[0] + pair[1], "all": torch.stack(outs, 1)}


class Nested(Layered):
    """A branch on data inside a loop on sizes, and a buffer that it writes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(C))

    def forward(self, x):
        y = self.a(x)
        for i in range(x.size(0)):
            if y[i].sum() > 0:
                y = y + self.b(y) * 0.1
                self.seen.add_(y[i].detach())
            else:  # what no branch reads has no gradient in PyTorch, and its momentum rests
                y = y - self.b(y) * 0.1
        return y


class EarlyReturn(Layered):
    def forward(self, x):
        y = self.a(x)
        if y.sum() > 100:
            return y
        z = self.b(y)
        if z.sum() > 0:
            return z * 2
        return y + z


class RaggedOutput(Layered):
    def forward(self, x):
        y = self.a(x)
        return y[y > 0]


def trips():
    return torch.randn(N, C, dtype=torch.float64), torch.full((N,), 3)


SEEN = ("aten::Bool", "prim::If", "prim::Loop", "aten::gt", "aten::mean", "aten::index", "aten::sum", "aten::size", "aten::add",
        "aten::div", "aten::masked_select", "aten::mul", "aten::index_put", "aten::Int", "aten::slice", "aten::nonzero", "aten::to",
        "aten::abs", "aten::max", "aten::lt", "aten::sub", "aten::Float", "aten::__and__", "aten::select", "aten::item", "prim::NumToTensor")
NETS = {
    "on the batch size": Net(OnBatchSize, rows(C), "script", quick=True),
    "on a shared input": Net(OnInput, rows(C), "script", quick=True),
    "on own data": Net(OnOwnData, rows(C), "script", per_member=SEEN, quick=True),
    "loop over the batch": Net(Tripping, rows(C), "script"),
    "loop as long as an input says": Net(TripsOfInput, trips, "script"),
    "until settled": Net(UntilSettled, rows(C), "script", per_member=(*SEEN, "aten::linear")),
    "rows by mask": Net(Growing, rows(C), "script", per_member=SEEN),
    "rows by mask, trace": Net(Growing, rows(C), per_member=SEEN),
    "masked select and write": Net(Masked, rows(C), "script", per_member=SEEN),
    "items": Net(Items, rows(C), "script", per_member=SEEN),
    "nonzero": Net(Nonzero, rows(C), "script", per_member=SEEN),
    "containers": Net(Containers, rows(C), "script"),
    "branch in a loop": Net(Nested, rows(C), "script", per_member=SEEN),
    "early return": Net(EarlyReturn, rows(C), "script", per_member=SEEN),
    "output of ragged shape": Net(RaggedOutput, rows(C), "script", refused="shape of a result depends on each member's own data"),
}
