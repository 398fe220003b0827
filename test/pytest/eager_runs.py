"""Whole runs in eager PyTorch, one member at a time, as docs/contract.md describes them, and random recipes for them."""
import copy
import json
import math
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import lr_scheduler as schedulers
from torch.optim.swa_utils import update_bn

N, C = 12, 3


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(C, 4), nn.Linear(4, C)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


class Normed(Plain):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.last(torch.tanh(self.norm(self.first(x))))


class Idle(Plain):
    """A frozen layer, and one that nobody reads."""

    def __init__(self):
        super().__init__()
        self.unread, self.fixed = nn.Linear(2, 2), nn.Linear(C, C)
        for p in self.fixed.parameters():
            p.requires_grad_(False)

    def forward(self, x):
        return self.last(torch.tanh(self.first(self.fixed(x) + x)))


NETS = {"plain": Plain, "normed": Normed, "idle": Idle}


def build(net, k):
    torch.manual_seed(k)
    return NETS[net]().double()


def row_losses(recipe, k, out, y):
    """[N]: each row's loss alone."""
    name, args = recipe["loss"], {n: v[k] for n, v in recipe["loss_args"].items()}
    if name == "cross_entropy":
        return F.cross_entropy(out, y, reduction="none", label_smoothing=args.get("label_smoothing", 0.0))
    if name == "huber":
        return F.huber_loss(out, y, reduction="none", delta=args.get("delta", 1.0)).mean(1)
    return {"mse": F.mse_loss, "l1": F.l1_loss}[name](out, y, reduction="none").mean(1)


def batch_loss(recipe, k, out, y, w=None):
    name, args = recipe["loss"], {n: v[k] for n, v in recipe["loss_args"].items()}
    if w is not None:
        rows = row_losses(recipe, k, out, y)
        return (w * rows).sum() / w.sum() if float(w.sum()) else 0 * rows.sum()
    return {"cross_entropy": F.cross_entropy, "huber": F.huber_loss, "mse": F.mse_loss, "l1": F.l1_loss}[name](out, y, **args)


OPTIMIZERS = {
    "sgd": (torch.optim.SGD, dict(lr=(0.01, 0.2), momentum=(0.0, 0.9), weight_decay=(0.0, 0.1))),
    "adam": (torch.optim.Adam, dict(lr=(0.001, 0.05), eps=(1e-8, 1e-3), weight_decay=(0.0, 0.1))),
    "adamw": (torch.optim.AdamW, dict(lr=(0.001, 0.05), weight_decay=(0.0, 0.5))),
    "rmsprop": (torch.optim.RMSprop, dict(lr=(0.001, 0.02), alpha=(0.5, 0.99), momentum=(0.0, 0.9))),
    "nadam": (torch.optim.NAdam, dict(lr=(0.001, 0.05), momentum_decay=(0.001, 0.1))),
    "adagrad": (torch.optim.Adagrad, dict(lr=(0.01, 0.1), lr_decay=(0.0, 0.1))),
}
SCHEDULES = [
    lambda r: ("step:step_size=%d,gamma=0.5", lambda o, a: schedulers.StepLR(o, a, 0.5), r.randint(1, 3)),
    lambda r: ("cosine:T_max=%d", lambda o, a: schedulers.CosineAnnealingLR(o, a), r.randint(2, 9)),
    lambda r: ("exponential:gamma=%g", lambda o, a: schedulers.ExponentialLR(o, a), r.choice([0.5, 0.9])),
    lambda r: ("inverse_sqrt:warmup_steps=%d", lambda o, a: schedulers.LambdaLR(o, lambda t: min((t + 1) / a, (a / (t + 1)) ** 0.5)),
               r.randint(1, 4)),
    lambda r: ("linear:total_iters=3,warmup=%d", lambda o, a: schedulers.SequentialLR(
        o, [schedulers.LinearLR(o, total_iters=a), schedulers.LinearLR(o, total_iters=3)], [a]), r.randint(1, 3)),
    lambda r: ("reduce_on_plateau:patience=%d,factor=0.5", lambda o, a: schedulers.ReduceLROnPlateau(o, patience=a, factor=0.5), r.randint(0, 1)),
]


def draw(seed, k):
    """A recipe of K members: what differs between them differs."""
    r = random.Random(seed)
    each = lambda make: [make() for _ in range(k)]
    recipe = {"net": r.choice(list(NETS)), "stacked": r.random() < 0.5, "seed": seed, "k": k}
    recipe["loss"] = r.choice(["mse", "l1", "huber", "cross_entropy", "cross_entropy"])
    recipe["loss_args"] = {}
    recipe["weights"] = r.choice([None, None, "shared", "each"])
    if recipe["loss"] == "huber":
        recipe["loss_args"]["delta"] = each(lambda: round(r.uniform(0.2, 2), 3))
    if recipe["loss"] == "cross_entropy" and r.random() < 0.7:
        recipe["loss_args"]["label_smoothing"] = each(lambda: round(r.uniform(0, 0.5), 3))
    if recipe["loss"] == "cross_entropy" and recipe["weights"] is None and r.random() < 0.5:
        recipe["loss_args"]["ignore_index"] = each(lambda: r.randint(0, C - 1))
    if recipe["weights"] is None and r.random() < 0.25:
        recipe["loss_args"]["reduction"] = ["sum"] * k
    recipe["optimizer"] = r.choice(list(OPTIMIZERS))
    recipe["values"] = {n: each(lambda: round(r.uniform(*span), 12)) for n, span in OPTIMIZERS[recipe["optimizer"]][1].items()}
    recipe["groups"] = r.random() < 0.3 and "weight_decay" in recipe["values"]
    recipe["epochs"] = each(lambda: r.randint(1, 5))
    recipe["rows"] = each(lambda: [r.randrange(N) for _ in range(r.randint(4, 14))]) if r.random() < 0.5 else None
    recipe["drop_last"] = r.random() < 0.2
    least = 2 if recipe["net"] == "normed" else 1

    def batch(i):
        n = len(recipe["rows"][i]) if recipe["rows"] else N
        return r.choice([b for b in range(least, n + 1) if least == 1 or recipe["drop_last"] or n % b != 1])

    recipe["batch"] = [batch(i) for i in range(k)]
    recipe["accumulate"] = r.choice([1, 1, 2, 3])
    recipe["clip_norm"] = each(lambda: round(r.uniform(0.05, 1), 3)) if r.random() < 0.3 else None
    recipe["clip_value"] = each(lambda: round(r.uniform(0.01, 0.2), 3)) if r.random() < 0.3 else None
    recipe["val"] = r.random() < 0.5
    recipe["schedules"] = None
    if r.random() < 0.6:
        recipe["schedules"] = []
        for _ in range(k):
            text, make, value = r.choice(SCHEDULES[: None if recipe["val"] else -1])(r)
            per_step = r.random() < 0.5 and "plateau" not in text
            recipe["schedules"].append((text.replace(":", "@step:", 1) % value if per_step else text % value, per_step, make, value))
    recipe["average"] = r.choice([None, None, "ema", "swa"])
    recipe["averages"] = [round(r.uniform(0.3, 0.95), 3) if recipe["average"] == "ema" else r.randint(1, e) for e in recipe["epochs"]]
    recipe["patience"] = each(lambda: r.randint(1, 2)) if recipe["val"] and r.random() < 0.7 else None
    recipe["min_delta"] = each(lambda: r.choice([0.0, 0.01, 0.1])) if recipe["patience"] and r.random() < 0.5 else None
    recipe["restore"] = recipe["average"] != "swa" and recipe["val"] and r.random() < 0.5
    recipe["recalibrate"] = recipe["net"] == "normed" and r.random() < 0.3
    return recipe


def arrays(recipe):
    """x, y, weights of every member [K,N,...], and the validation data."""
    g, k = np.random.RandomState(recipe["seed"] % 2**31), recipe["k"]
    classes = recipe["loss"] == "cross_entropy"
    n = recipe["k"] if recipe["stacked"] else 1
    x = np.broadcast_to(g.randn(n, N, C), (k, N, C))
    y = np.broadcast_to(g.randint(0, C, (n, N)) if classes else g.randn(n, N, C), (k, N) if classes else (k, N, C))
    w = None
    if recipe["weights"]:
        w = np.broadcast_to(g.choice([0.0, 0.5, 1.0, 2.5], (k if recipe["weights"] == "each" else 1, N)), (k, N))
    vx = np.broadcast_to(g.randn(n, 7, C), (k, 7, C))
    vy = np.broadcast_to(g.randint(0, C, (n, 7)) if classes else g.randn(n, 7, C), (k, 7) if classes else (k, 7, C))
    return x, y, w, vx, vy


def write(recipe, folder):
    """The data files; returns the options of chorus-run."""
    x, y, w, vx, vy = arrays(recipe)
    each = recipe["stacked"]
    np.savez(folder / "d.npz", x=x if each else x[0], y=y if each else y[0])
    options = ["--data", "d.npz", "--shuffle", "none", "--quiet", "--loss", recipe["loss"], "--optimizer", recipe["optimizer"]]
    joined = lambda values: ",".join(map(str, values))
    for name, values in recipe["values"].items():
        options += ["--" + name.replace("_", "-"), joined(values)]
    for name, values in recipe["loss_args"].items():
        options += ["--loss-arg", f"{name}={joined(values)}"]
    options += ["--epochs", joined(recipe["epochs"]), "--batch-size", joined(recipe["batch"]), "--accumulate", recipe["accumulate"]]
    options += ["--inputs", "stacked"] if each else []
    options += ["--drop-last"] if recipe["drop_last"] else []
    options += ["--recalibrate"] if recipe["recalibrate"] else []
    if w is not None:
        np.save(folder / "w.npy", w if recipe["weights"] == "each" else w[0])
        options += ["--sample-weight", "w.npy"]
    if recipe["rows"]:
        (folder / "rows.json").write_text(json.dumps(recipe["rows"]))
        options += ["--subset", "rows.json"]
    if recipe["groups"]:
        (folder / "groups.csv").write_text("pattern,lr,weight_decay\n*.bias,,0\nlast.*,0.02,\n")
        options += ["--param-groups", "groups.csv"]
    if recipe["val"]:
        np.savez(folder / "v.npz", x=vx if each else vx[0], y=vy if each else vy[0])
        options += ["--val", "v.npz", "--restore", "best" if recipe["restore"] else "last"]
    if recipe["schedules"]:
        options += ["--lr-schedule", ";".join(text for text, *_ in recipe["schedules"])]
    if recipe["average"]:
        options += ["--" + recipe["average"], joined(recipe["averages"])]
    for name in ("clip_norm", "clip_value", "patience", "min_delta"):
        if recipe[name]:
            options += ["--" + name.replace("_", "-"), joined(recipe[name])]
    return options


def parameter_groups(recipe, net, k):
    if not recipe["groups"]:
        return list(net.parameters())
    groups = [{"params": [], "weight_decay": 0.0}, {"params": [], "lr": 0.02}, {"params": []}]
    for name, p in net.named_parameters():
        groups[0 if name.endswith(".bias") else 1 if name.startswith("last.") else 2]["params"].append(p)
    return groups


def micro_batches(recipe, k):
    rows = recipe["rows"][k] if recipe["rows"] else list(range(N))
    size = recipe["batch"][k]
    parts = [rows[i:i + size] for i in range(0, len(rows), size)]
    return [part for part in parts if len(part) == size] if recipe["drop_last"] else parts


def copied(net):
    return {n: t.detach().clone() for n, t in [*net.named_parameters(), *net.named_buffers()]}


def put(net, values):
    with torch.no_grad():
        for n, t in [*net.named_parameters(), *net.named_buffers()]:
            if n in values:
                t.copy_(values[n])


def run(recipe, k, nudge=None):
    """The state that member k ends with."""
    net = build(recipe["net"], k)
    if nudge:
        nudge(net)
    x, y, w, vx, vy = (None if a is None else torch.from_numpy(np.array(a)) for a in arrays(recipe))
    x, y, vx, vy, w = x[k], y[k], vx[k], vy[k], None if w is None else w[k]
    optimizer = OPTIMIZERS[recipe["optimizer"]][0](parameter_groups(recipe, net, k), **{n: v[k] for n, v in recipe["values"].items()})
    per_step, plan = False, None
    if recipe["schedules"]:
        _, per_step, make, value = recipe["schedules"][k]
        plan = make(optimizer, value)
    trained = [n for n, p in net.named_parameters() if p.requires_grad]
    parts, kind = micro_batches(recipe, k), recipe["average"]
    mean, count, best, reference, bad, kept = None, 0, None, None, 0, None
    for epoch in range(1, recipe["epochs"][k] + 1):
        net.train()
        for begin in range(0, len(parts), recipe["accumulate"]):
            cycle = parts[begin:begin + recipe["accumulate"]]
            optimizer.zero_grad()
            for rows in cycle:
                loss = batch_loss(recipe, k, net(x[rows]), y[rows], None if w is None else w[rows])
                (loss / len(cycle)).backward()
            if recipe["clip_norm"]:
                nn.utils.clip_grad_norm_(net.parameters(), recipe["clip_norm"][k])
            if recipe["clip_value"]:
                nn.utils.clip_grad_value_(net.parameters(), recipe["clip_value"][k])
            optimizer.step()
            if plan and per_step:
                plan.step()
            if kind == "ema":
                now = {n: t for n, t in copied(net).items() if n in trained}
                mean = now if mean is None else {n: torch.lerp(mean[n], now[n], 1 - recipe["averages"][k]) for n in now}
        if kind == "swa" and epoch >= recipe["averages"][k]:
            now, count = {n: t for n, t in copied(net).items() if n in trained}, count + 1
            mean = now if mean is None else {n: torch.lerp(mean[n], now[n], 1 / count) for n in now}
        value = math.nan
        if recipe["val"]:
            scored = copy.deepcopy(net).eval()
            if kind == "ema" and mean:
                put(scored, mean)
            with torch.no_grad():
                sizes, total = recipe["batch"][k], 0.0
                for i in range(0, len(vx), sizes):
                    total += float(batch_loss(recipe, k, scored(vx[i:i + sizes]), vy[i:i + sizes])) * len(vx[i:i + sizes])
                value = total / len(vx)
        if plan and not per_step:
            plan.step(*([value] if isinstance(plan, schedulers.ReduceLROnPlateau) else []))
        delta = recipe["min_delta"][k] if recipe["min_delta"] else 0.0
        if recipe["restore"] and value == value and (best is None or value < best - delta):
            best, kept = value, (copied(net), mean)
        if recipe["patience"]:
            if value == value and (reference is None or value < reference - delta):
                reference, bad = value, 0
            else:
                bad += 1
                if bad >= recipe["patience"][k]:
                    break
    if kept:
        put(net, kept[0])
        mean = kept[1]
    if mean:
        put(net, mean)
    if recipe["net"] == "normed" and (kind == "swa" or recipe["recalibrate"]):
        update_bn([x[rows] for rows in parts], net)
    return copied(net)


def reversed_members(recipe):
    """The same run with its members in the other order (of shared data)."""
    turned = dict(recipe)
    for name, value in recipe.items():
        if isinstance(value, list):
            turned[name] = value[::-1]
        if name in ("values", "loss_args"):
            turned[name] = {n: v[::-1] for n, v in value.items()}
    return turned
