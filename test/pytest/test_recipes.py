"""Whole recipes, everything at once: a small ResNet-18, a small BERT, an LSTM that forecasts.

Each is compared with the same recipe in eager PyTorch (no dropout: PyTorch draws other masks), and with chorus training each member
alone, dropout included. K = 3, with three values of whatever may differ.
"""
import json

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler as schedulers
from torch.optim import swa_utils

from chorus_testing import assert_close, export, nudged, state, tool
from training_case import turns_red

K = 3


class Block(nn.Module):
    def __init__(self, planes, out, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(planes, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.shortcut = nn.Sequential()
        if stride != 1 or planes != out:
            self.shortcut = nn.Sequential(nn.Conv2d(planes, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet18(nn.Module):
    """Its eight blocks, with 4 to 32 channels instead of 64 to 512."""

    def __init__(self, p=0.0):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 4, 3, 1, 1, bias=False), nn.BatchNorm2d(4)
        widths, layers = [4, 4, 8, 16, 32], []
        for i in range(4):
            layers += [Block(widths[i], widths[i + 1], 1 if i == 0 else 2), Block(widths[i + 1], widths[i + 1], 1)]
        self.layers = nn.Sequential(*layers)
        self.drop, self.fc = nn.Dropout(p), nn.Linear(32, 4)

    def forward(self, x):
        y = self.layers(torch.relu(self.bn1(self.conv1(x))))
        return self.fc(self.drop(y.mean((2, 3))))


class Bert(nn.Module):
    """Two encoder layers of width 8 over 6 tokens of 12 words."""

    def __init__(self, p=0.0):
        super().__init__()
        self.words, self.places = nn.Embedding(12, 8), nn.Parameter(torch.randn(6, 8) * 0.1)
        self.norm, self.drop = nn.LayerNorm(8), nn.Dropout(p)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(8, 2, 16, p, "gelu", batch_first=True) for _ in range(2))
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        y = self.drop(self.norm(self.words(x) + self.places))
        for layer in self.layers:
            y = layer(y)
        return self.head(torch.tanh(y[:, 0]))


class Forecaster(nn.Module):
    def __init__(self, p=0.0):
        super().__init__()
        self.lstm, self.drop, self.last = nn.LSTM(2, 5, 2, batch_first=True, dropout=p), nn.Dropout(p), nn.Linear(5, 2)

    def forward(self, x):
        return self.last(self.drop(self.lstm(x)[0][:, -1]))


def images(rng):
    return rng.randn(20, 3, 8, 8).astype("f4"), rng.randint(0, 4, 20)


def sentences(rng):
    return rng.randint(0, 12, (20, 6)), rng.randint(0, 4, 20)


def series(rng):
    walk = np.cumsum(rng.randn(20, 9, 2), 1).astype("f4") / 3
    return walk[:, :8], walk[:, 8]


def decays(net, decay):
    """No decay for what is no matrix."""
    named = list(net.named_parameters())
    return [{"params": [p for _, p in named if p.dim() > 1], "weight_decay": decay},
            {"params": [p for _, p in named if p.dim() <= 1], "weight_decay": 0.0}]


class Recipe:
    epochs, batch = 4, 5

    def __init__(self, net, data, options, each, precision=None):
        self.net, self.data, self.options, self.each, self.precision = net, data, options, each, precision

    def make(self, k, p=0.0):
        torch.manual_seed(k)
        return self.net(p)


LRS, SMOOTH, CLIPS, EMAS, DECAYS = [0.05, 0.1, 0.02], [0.0, 0.1, 0.2], [0.5, 1.0, 5.0], [0.9, 0.8, 0.5], [0.01, 0.001, 0.1]
BERT_LRS = [0.003, 0.001, 0.01]


def three(values):
    return lambda k: [str(values[k])] if k is not None else [",".join(map(str, values))]


def resnet_options(k):
    text = ["--loss", "cross_entropy", "--optimizer", "sgd", "--momentum", "0.9", "--nesterov", "--lr-schedule", "cosine@step:T_max=12,warmup=4",
            "--param-groups", "groups.csv"]
    for name, values in (("--lr", LRS), ("--clip-norm", CLIPS), ("--ema", EMAS), ("--weight-decay", DECAYS)):
        text += [name, *three(values)(k)]
    return [*text, "--loss-arg", "label_smoothing=" + three(SMOOTH)(k)[0]]


def bert_options(k):
    text = ["--loss", "cross_entropy", "--optimizer", "adamw", "--lr-schedule", "linear@step:start_factor=1,end_factor=0,total_iters=16",
            "--param-groups", "groups.csv"]
    for name, values in (("--lr", BERT_LRS), ("--clip-norm", CLIPS), ("--weight-decay", DECAYS)):
        text += [name, *three(values)(k)]
    return text


def lstm_options(k):
    text = ["--loss", "mse", "--optimizer", "adam", "--lr-schedule", "reduce_on_plateau:patience=0,factor=0.5,threshold=0.02", "--val", "v.npz"]
    for name, values in (("--lr", LRS), ("--patience", [2, 3, 1])):
        text += [name, *three(values)(k)]
    return text


RECIPES = {
    "resnet": Recipe(ResNet18, images, resnet_options, None),
    "resnet bf16": Recipe(ResNet18, images, lambda k: [*resnet_options(k), "--amp", "bf16"], None, torch.bfloat16),
    "bert": Recipe(Bert, sentences, bert_options, None),
    "lstm": Recipe(Forecaster, series, lstm_options, None),
}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tmp_path_factory.mktemp("recipes")


def prepare(base, name, p):
    recipe = RECIPES[name]
    folder = base / f"{name.split()[0]} {p}"
    if folder.exists():
        return folder
    folder.mkdir()
    rng = np.random.RandomState(0)
    x, y = recipe.data(rng)
    np.savez(folder / "d.npz", x=x, y=y)
    np.savez(folder / "v.npz", **dict(zip("xy", recipe.data(rng))))
    bare = [n for n, q in recipe.make(0).named_parameters() if q.dim() <= 1]
    (folder / "groups.csv").write_text("pattern,weight_decay\n" + "".join(f"{n},0\n" for n in bare))
    for k in range(K):
        export(recipe.make(k, p), folder / f"m{k}.pt", torch.from_numpy(x[:3]))
    tool("fuse", "m0.pt", "m1.pt", "m2.pt", "-o", "f.pt", "--no-verify", cwd=folder)
    return folder


def run(folder, recipe, model, options, out, k=None):
    seeds = "11,12,13" if k is None else str(11 + k)
    return tool("run", model, "--data", "d.npz", "--batch-size", recipe.batch, "--epochs", 12 if "--patience" in options else recipe.epochs,
                "--shuffle", "none", "--member-seed", seeds, "--quiet", "--json", "-o", out, *options, cwd=folder)


def fused(folder, recipe):
    report = json.loads(run(folder, recipe, "f.pt", recipe.options(None), "t.pt").stdout)["members"]
    tool("split", "t.pt", "-o", "parts", "--force", cwd=folder)
    return [state(torch.jit.load(folder / "parts" / f"m{k}.pt")) for k in range(K)], report


def arrays(folder, file="d.npz"):
    return [torch.from_numpy(array) for array in np.load(folder / file).values()]


def batches(folder, recipe):
    x, y = arrays(folder)
    return [(x[i:i + recipe.batch], y[i:i + recipe.batch]) for i in range(0, len(x), recipe.batch)]


def eager_resnet(folder, recipe, k, noise, precision=None, rounding=None):
    net = recipe.make(k)
    if noise:
        nudged(net, noise, rounding)
    optimizer = torch.optim.SGD(decays(net, DECAYS[k]), LRS[k], momentum=0.9, nesterov=True)
    plan = schedulers.SequentialLR(optimizer, [schedulers.LinearLR(optimizer, total_iters=4), schedulers.CosineAnnealingLR(optimizer, 12)], [4])
    mean = swa_utils.AveragedModel(net, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(EMAS[k]))
    for _ in range(recipe.epochs):
        for x, y in batches(folder, recipe):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=(precision or recipe.precision) == torch.bfloat16):
                loss = nn.functional.cross_entropy(net(x), y, label_smoothing=SMOOTH[k])
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), CLIPS[k])
            optimizer.step()
            plan.step()
            mean.update_parameters(net)
    for own, other in zip(mean.module.buffers(), net.buffers()):
        own.copy_(other)
    return state(mean.module), recipe.epochs


def eager_bert(folder, recipe, k, noise):
    net = recipe.make(k)
    if noise:
        nudged(net, noise)
    optimizer = torch.optim.AdamW(decays(net, DECAYS[k]), BERT_LRS[k])
    plan = schedulers.LinearLR(optimizer, 1.0, 0.0, 16)
    for _ in range(recipe.epochs):
        for x, y in batches(folder, recipe):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            nn.utils.clip_grad_norm_(net.parameters(), CLIPS[k])
            optimizer.step()
            plan.step()
    return state(net), recipe.epochs


def eager_lstm(folder, recipe, k, noise):
    net = recipe.make(k)
    if noise:
        nudged(net, noise)
    optimizer = torch.optim.Adam(net.parameters(), LRS[k])
    plan = schedulers.ReduceLROnPlateau(optimizer, patience=0, factor=0.5, threshold=0.02)
    x, y = arrays(folder, "v.npz")
    best, kept, bad = None, None, 0
    for epoch in range(1, 13):
        for a, b in batches(folder, recipe):
            optimizer.zero_grad()
            nn.functional.mse_loss(net(a), b).backward()
            optimizer.step()
        with torch.no_grad():
            value = float(nn.functional.mse_loss(net(x), y))
        plan.step(value)
        bad = 0 if best is None or value < best else bad + 1
        if bad == 0:
            best, kept = value, state(net)
        if bad == [2, 3, 1][k]:
            break
    return kept, epoch


EAGER = {"resnet": eager_resnet, "resnet bf16": eager_resnet, "bert": eager_bert, "lstm": eager_lstm}


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_are_those_of_pytorch(base, name):
    recipe, folder = RECIPES[name], prepare(base, name, 0.0)
    got, report = fused(folder, recipe)
    for k in range(K):
        want, epochs = EAGER[name](folder, recipe, k, 0)
        assert report[k]["epochs"] == epochs
        if recipe.precision is None:
            noisy = [EAGER[name](folder, recipe, k, noise) for noise in (1, 2)]
            assert_close(got[k], want, 1e-5, [nudge for nudge, _ in noisy], what=f"member {k}")
            continue
        # Kernels round bf16 differently: as near to PyTorch's as PyTorch's own runs are whose weights began a rounding to bf16 away.
        others = [eager_resnet(folder, recipe, k, seed, rounding=2.0**-9)[0] for seed in (1, 2, 3)]
        others.append(eager_resnet(folder, recipe, k, 0, torch.float32)[0])
        for tensor in want:
            mine, *theirs = (float((t[tensor].double() - want[tensor].double()).norm()) for t in (got[k], *others))
            assert mine <= 2 * max(theirs) + 1e-6, f"member {k} {tensor}: off by {mine}, such runs by {theirs}"


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_are_those_of_members_alone(base, name):
    """With dropout, whose masks are functions of the member's seed."""
    recipe, folder = RECIPES[name], prepare(base, name, 0.1)
    got, report = fused(folder, recipe)
    for k in range(K):
        options = recipe.options(k)
        done = json.loads(run(folder, recipe, f"m{k}.pt", options, "solo.pt", k).stdout)["members"][0]
        assert done["epochs"] == report[k]["epochs"]
        for nudge in (1, 2, 3):
            export(nudged(recipe.make(k, 0.1), nudge), folder / "nudged.pt", arrays(folder)[0][:3])
            run(folder, recipe, "nudged.pt", options, f"noisy{nudge}.pt", k)
        want, *noisy = (state(torch.jit.load(folder / f"{file}.pt")) for file in ("solo", "noisy1", "noisy2", "noisy3"))
        assert_close(got[k], want, 1e-5 if recipe.precision is None else 0.02, noisy, what=f"member {k}")


def test_a_fault_turns_these_tests_red(base, monkeypatch):
    turns_red(monkeypatch, "schedule_late", test_recipes_are_those_of_pytorch, base, "bert")
