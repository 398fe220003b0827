"""Members, options and data that are refused: what docs/reference/diagnostics.md shows. Line numbers of this file are in that page:
`python test/pytest/test_diagnostics.py --write` writes it anew."""
import json
import zipfile
from dataclasses import dataclass
from typing import Callable

import numpy as np
import torch
from torch import nn

X = torch.randn(4, 4)


@dataclass
class Example:
    """`make(folder)` writes files there and returns the command line. `code`: the exit code."""

    title: str
    cause: str
    fix: str
    make: Callable
    code: int = 1


class Net(nn.Module):
    """One network with a switch for each difference."""

    def __init__(self, act=torch.relu, skip=True, dim=1, bias=True, width=4, tied=False, norm="tracks", frozen=False, spare=False,
                 two=False, order=False, table=None, rate=0.5, power=2, parts=2, scale="number", role="parameter"):
        super().__init__()
        self.a = nn.Linear(4, width, bias=bias)
        self.b = nn.Linear(width, 4)
        self.norm = nn.BatchNorm1d(width, track_running_stats=norm == "tracks")
        if tied:
            self.b.weight = self.a.weight
        if frozen:
            self.a.weight.requires_grad_(False)
        if spare:
            self.register_buffer("spare", torch.ones(3))
        if role == "parameter":
            self.gain = nn.Parameter(torch.ones(4))
        else:
            self.register_buffer("gain", torch.ones(4))
        self.act, self.skip, self.dim, self.two, self.order, self.table = act, skip, dim, two, order, table
        self.rate, self.power, self.parts, self.scale = rate, power, parts, scale

    def forward(self, x):
        h = self.norm(self.a(x))
        h = self.b(self.act(h)) * self.gain
        h = h + (x if self.skip else self.gain)
        if self.table is not None:
            h = h + self.table
        h = torch.cat([h] * self.parts, 1)
        h = h * (h.mean() if self.scale == "computed" else 0.5)
        y = torch.softmax(torch.nn.functional.dropout(h, self.rate, self.training), self.dim)
        if self.two:
            return (h, y) if self.order else (y, h)
        return y


class Keys(nn.Module):
    def __init__(self, key):
        super().__init__()
        self.a, self.key = nn.Linear(4, 4), key

    def forward(self, x):
        return {"y": self.a(x), self.key: x}


class Counts(nn.Module):
    """A buffer that forward moves, or not."""

    def __init__(self, moves):
        super().__init__()
        self.a, self.moves = nn.Linear(4, 4), moves
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x):
        if self.moves:
            self.seen += 1
        return self.a(x)


class Twice(nn.Module):
    """Two masks, or one mask twice."""

    def __init__(self, masks):
        super().__init__()
        self.a, self.masks = nn.Linear(4, 4), masks

    def forward(self, x):
        h = self.a(x)
        first = nn.functional.dropout(h, 0.5, self.training)
        return first + (first if self.masks == 1 else nn.functional.dropout(h, 0.5, self.training))


class Recurrent(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.rnn = nn.LSTM(4, width, batch_first=True)

    def forward(self, x):
        return self.rnn(x)[0][:, -1]


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(x)


def save(net, path, x=X, how="trace", train=True):
    net.train(train)
    made = torch.jit.script(net) if how == "script" else torch.jit.trace(net, x, check_trace=False, strict=False)
    made.save(str(path))


def three(make, *more, x=X):
    """Files m0.pt, m1.pt, m2.pt of the networks `make(k)`; the command that fuses them."""

    def write(folder):
        for k in range(3):
            torch.manual_seed(k)
            save(make(k), folder / f"m{k}.pt", x)
        return ["fuse", "m0.pt", "m1.pt", "m2.pt", "-o", "fused.pt", "--no-verify", *more]

    return write


def odd(*more, **changed):
    """Member 2 is another."""
    return three(lambda k: Net(**(changed if k == 2 else {})), *more)


def differ(kind, usual, other, x=X):
    return three(lambda k: kind(other if k == 2 else usual), x=x)


def fuse(*options):
    """Of two equal members."""

    def write(folder):
        for k in range(2):
            torch.manual_seed(k)
            save(Plain(), folder / f"m{k}.pt")
        return ["fuse", "m0.pt", "m1.pt", "-o", "fused.pt", "--no-verify", *options]

    return write


def bytes_of(name, content, *argv):
    def write(folder):
        (folder / name).write_bytes(content)
        return list(argv)

    return write


def hparams(text):
    def write(folder):
        (folder / "points.csv").write_text(text)
        return fuse("--loss", "cross_entropy", "--optimizer", "adamw", "--hparams", "points.csv")(folder)

    return write


def train(*options, x=np.ones((6, 4), "float32"), y=np.array([0, 1, 2, 0, 1, 2]), **more):
    """A member of three classes, and data."""

    def write(folder):
        save(Plain(), folder / "m0.pt")
        np.savez(folder / "d.npz", x=x, y=y, **more)
        return ["run", "m0.pt", "--data", "d.npz", "--loss", "cross_entropy", "--optimizer", "sgd", "-o", "t.pt", *options]

    return write


def other_inputs(k):
    return nn.Sequential(nn.Linear(5 if k == 2 else 4, 4))


def write_inputs(folder):
    for k in range(3):
        save(other_inputs(k), folder / f"m{k}.pt", torch.randn(4, 5 if k == 2 else 4))
    return ["fuse", "m0.pt", "m1.pt", "m2.pt", "-o", "fused.pt"]


def write_modes(folder):
    for k in range(3):
        save(Net(), folder / f"m{k}.pt", train=k != 2)
    return ["fuse", "m0.pt", "m1.pt", "m2.pt", "-o", "fused.pt"]


def write_script(folder):
    save(Plain(), folder / "m0.pt", how="script")
    return ["fuse", "m0.pt", "--plan"]


def write_hostile(folder):
    save(Plain(), folder / "good.pt")
    with zipfile.ZipFile(folder / "good.pt") as archive, zipfile.ZipFile(folder / "m0.pt", "w", zipfile.ZIP_STORED) as out:
        for name in archive.namelist():
            data = archive.read(name)
            out.writestr(name, b"\x80\x02cos\nsystem\n(X\x04\x00\x00\x00truetR." if name.endswith("data.pkl") else data)
    return ["fuse", "m0.pt", "--plan"]


def write_pickle(folder):
    torch.save(Plain().state_dict(), folder / "m0.pt")
    return ["fuse", "m0.pt", "--plan"]


def write_check(folder):
    for k in range(2):
        torch.manual_seed(k)
        save(Net(), folder / f"m{k}.pt")
    save(Net(dim=0), folder / "other.pt")
    return ["fuse", "m0.pt", "m1.pt", "-o", "fused.pt", "--no-verify"], ["fuse", "m0.pt", "other.pt", "--check", "fused.pt"]


def write_split(folder):
    fuse()(folder)
    (folder / "out").mkdir()
    (folder / "out" / "m1.pt").write_bytes(b"mine")
    return fuse()(folder), ["split", "fused.pt", "-o", "out"]


def write_manifest(folder):
    (folder / "runs.json").write_text(json.dumps({"format": 1, "members": ["a"], "groups": [{"file": "../x.pt", "members": ["a"]}]}))
    return ["split", "runs.json", "-o", "out"]


MEMBERS = [
    Example("C1: other inputs", "The members do not take the same inputs, so no batch fits all.",
            "Fuse members of one input shape; `--input` gives it where a trace's example has another.", write_inputs),
    Example("C2: another op", "An op of the odd member has another op in its place.", "Train it apart (`--group`).", odd(act=torch.tanh)),
    Example("C3: other wiring", "An op reads something else.", "Train it apart.", odd(skip=False)),
    Example("C3: one mask twice", "Two draws are two masks; one used twice is one.", "Train it apart.", differ(Twice, 2, 1)),
    Example("C3: lists of other lengths", "An op joins another number of tensors.", "Train it apart.", odd(parts=3)),
    Example("C4: an attribute", "A constant argument that decides a shape or what is computed differs. Numbers that decide neither vary "
            "(docs/fusion_contract.md).", "Make it equal, or train the member apart.", odd(dim=0)),
    Example("C4: computed in one member", "One member computes a number that is a constant in the others.", "Train it apart.",
            odd(scale="computed")),
    Example("C5: an operand is missing", "An optional operand is there in one member only.", "Give it to all, e.g. a bias of zeros.",
            odd(bias=False)),
    Example("C5: no running statistics", "A batch norm tracks statistics in some members only.", "Use one `track_running_stats`.",
            odd(norm="none")),
    Example("C6: other sizes", "Corresponding tensors have other sizes. The first in forward order is named: later ones follow from it.",
            "Use one width, or `--group`.", odd(width=6)),
    Example("C6: another hidden size", "As above; of a recurrent layer its width is named.", "Use one width, or `--group`.",
            differ(Recurrent, 8, 6, x=torch.randn(4, 5, 4))),
    Example("C6: another dtype", "Corresponding tensors have other dtypes.", "Convert the member, e.g. `.float()`.",
            three(lambda k: nn.Sequential(nn.Embedding(4, 4)).to(torch.float64 if k == 2 else torch.float32), x=torch.arange(4))),
    Example("C7: a buffer beside a parameter", "One is trained, the other is not.", "Register it alike in all.", odd(role="buffer")),
    Example("C7: frozen in one member", "The optimizer would move both or neither.", "Freeze it in all members, or `--group`.",
            odd(frozen=True)),
    Example("C8: tied in one member", "Gradients of a tied tensor add up.", "Tie it in all members.", odd(tied=True)),
    Example("C9: tables of other sizes", "Constant tensors have other sizes (of equal sizes they vary).", "Use one size.",
            three(lambda k: Net(table=torch.ones(1 if k == 2 else 4)))),
    Example("C10: more results", "The members return another number of tensors.", "Return the same.", odd(two=True)),
    Example("C10: results in another order", "The loss would take one for the other.", "Return them in one order.",
            three(lambda k: Net(two=True, order=k == 2))),
    Example("C10: other keys", "A dict has another key.", "Use the same keys.", differ(Keys, "x", "z")),
    Example("C11: a buffer that moves", "Forward moves a buffer in some members only.", "Train it apart.", differ(Counts, True, False)),
    Example("C12: a spare buffer", "The member could not be split into what it was.", "Register it in all members.", odd(spare=True)),
    Example("C13: traces of two modes", "A trace has the flags of the mode that it was made in.", "Trace all after `train()`.", write_modes),
    Example("No two alike", "Every member is another network.", "`--group` trains each apart.",
            three(lambda k: Net(act=[torch.relu, torch.tanh, torch.sigmoid][k]))),
    Example("A fused file of other members", "`--check` proves the file's certificate against these members, and it does not hold.",
            "Name the members that it was made of, in order.", write_check),
]

FILES = [
    Example("No such file", "A name is wrong.", "Look at the path; a list is `@list.txt`.", lambda _: ["fuse", "m9.pt", "--plan"]),
    Example("Not an archive", "The file is of another format.", "Save with `torch.jit.trace(...)` or `torch.jit.script(...)` and `.save`.",
            bytes_of("m0.pt", b"hello", "fuse", "m0.pt", "--plan")),
    Example("A state dict", "`torch.save` keeps tensors without the network.", "Export the module itself.", write_pickle),
    Example("A pickle that runs code", "Files are untrusted: what names anything but tensors and known containers is not read.",
            "Export it again from a source that you trust.", write_hostile),
    Example("A script without shapes", "A script stores no example inputs, and the graph does not imply their sizes.", "Give `--input`.",
            write_script),
    Example("Files that exist", "Nothing is overwritten unasked.", "Another folder, or `--force`.", write_split),
    Example("A manifest that points elsewhere", "Its paths stay in its own folder.", "Write names of files only.", write_manifest),
]

OPTIONS = [
    Example("An unknown option", "It is misspelled, or of another tool.", "The nearest one is named.", fuse("--optimiser", "adam"), 2),
    Example("An unknown loss", "It has no file in lib/losses.", "The nearest one is named; a scripted loss is a file.",
            fuse("--loss", "crossentropy"), 2),
    Example("An unknown optimizer", "It has no file in lib/optimizers.", "The nearest one is named.",
            fuse("--loss", "mse", "--optimizer", "adamax2"), 2),
    Example("A wrong number of values", "One value holds for all, else there is one per member.", "Give one or K.",
            fuse("--loss", "mse", "--optimizer", "sgd", "--lr", "0.1,0.2,0.3")),
    Example("A value out of range", "PyTorch's optimizer refuses it too.", "See the range in the message.",
            fuse("--loss", "mse", "--optimizer", "sgd", "--lr", "-1")),
    Example("An unknown column", "Columns are named like options.", "The nearest is named, also of abbreviations.",
            hparams("lr,wd\n0.1,0.01\n0.2,0.02\n")),
    Example("A table of other members", "It has a row per member.", "One row per member, in order or with a column `member`.",
            hparams("lr\n0.1\n")),
    Example("A tensor that cannot be shared", "What `--share` names must be equal in all members.", "Share frozen, equal tensors.",
            fuse("--share", "fc.weight")),
    Example("A name that no tensor has", "`--share` matches names of parameters and buffers.", "The nearest is named.",
            fuse("--share", "fc.weights")),
]

DATA = [
    Example("No such array", "The model's inputs and the target are found by name.", "`--keys` names them.", train("--keys", "x,label")),
    Example("Sizes that do not fit", "Rows have other sizes than the model's input.", "Reshape the data; N is free.",
            train(x=np.ones((6, 5), "float32"))),
    Example("A class that is none", "Class numbers lie below the number of outputs.", "Renumber them from 0.",
            train(y=np.array([0, 1, 2, 3, 0, 1]))),
    Example("Numbers that are no class", "Targets of cross entropy are class numbers or probabilities.", "Write integers.",
            train(y=np.ones(6, "float32"))),
    Example("Complex numbers", "The model computes with real ones.", "Write real and imaginary parts apart.",
            train(x=np.ones((6, 4), "complex64"))),
    Example("Another number of rows", "Arrays have a row per example.", "Cut them to one length.", train(y=np.array([0, 1, 2]))),
]

SECTIONS = {"Members that differ": MEMBERS, "Files": FILES, "Options and hyperparameters": OPTIONS, "Data": DATA}
