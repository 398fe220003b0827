"""One training step of K members: fused against one after another.

Contenders, in one run, rounds interleaved, one thread, one learning rate per member:

    separate   eager PyTorch, K modules one after another, torch.optim with fused=True
    vmap       torch.func.vmap over grad_and_value, stacked optimizer arithmetic
    script     the fused file in plain PyTorch: torch.jit.load(...).train_step
    run        chorus-run on the fused file (its own clock: training only)

Prints, per workload, the median over rounds of separate's time divided by the contender's (above 1: faster), as a table;
`--json FILE` writes every round. Machines are shared and noisy: only ratios of one round mean something.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")
import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)


def mlp():
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def lenet():
    return nn.Sequential(nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def conv_bn():
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(2048, 10))


class Recurrent(nn.Module):
    """Classes from the last output; batch first, so that rows are rows."""

    def __init__(self, kind):
        super().__init__()
        self.net, self.head = kind(64, 64, batch_first=True), nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.net(x)[0][:, -1])


def lstm():
    return Recurrent(nn.LSTM)


def gru():
    return Recurrent(nn.GRU)


# name: network, input shape of a row, rows of a batch, K
WORKLOADS = {
    "mlp K=8": (mlp, (64,), 32, 8),
    "mlp K=32": (mlp, (64,), 32, 32),
    "lenet K=8": (lenet, (3, 32, 32), 32, 8),
    "convbn K=8": (conv_bn, (3, 32, 32), 16, 8),
    "lstm K=8": (lstm, (32, 64), 32, 8),
    "gru K=8": (gru, (32, 64), 32, 8),
}
# torch.func.vmap has no rule for them.
WITHOUT_VMAP = {"lstm K=8", "gru K=8"}


class Workload:
    def __init__(self, name, folder, bin_folder):
        self.make, shape, self.n, self.k = WORKLOADS[name]
        self.folder, self.bin = folder, bin_folder
        self.rates = [1e-3 * (1 + i) / self.k for i in range(self.k)]
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(self.n, *shape, generator=generator)
        self.y = torch.randint(0, 10, (self.n,), generator=generator)
        self.fuse()

    def members(self):
        made = []
        for i in range(self.k):
            torch.manual_seed(i)
            made.append(self.make())
        return made

    def fuse(self):
        paths = []
        for i, module in enumerate(self.members()):
            paths.append(self.folder / f"m{i}.pt")
            torch.jit.trace(module, self.x, check_trace=False).save(str(paths[-1]))
        self.fused = self.folder / "fused.pt"
        subprocess.run([self.bin / "chorus-fuse", *paths, "-o", self.fused, "--no-verify", "--loss", "cross_entropy",
                        "--optimizer", "adam", "--lr", ",".join(map(repr, self.rates))], check=True,
                       stdout=subprocess.DEVNULL)


class Separate:
    def __init__(self, work):
        self.work, self.models = work, work.members()
        self.optimizers = [torch.optim.Adam(m.parameters(), lr=r, fused=True) for m, r in zip(self.models, work.rates)]

    def step(self):
        for model, optimizer in zip(self.models, self.optimizers):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(self.work.x), self.work.y).backward()
            optimizer.step()

    def time(self, steps):
        return timed(self.step, steps)


class Vmap:
    def __init__(self, work):
        from torch.func import functional_call, grad_and_value, stack_module_state, vmap

        models = work.members()
        self.params, self.buffers = stack_module_state(models)
        self.params = {n: p.detach() for n, p in self.params.items()}
        base = models[0].to("meta")

        def loss(params, buffers, x, y):
            return nn.functional.cross_entropy(functional_call(base, (params, buffers), (x,)), y)

        self.gradients = vmap(grad_and_value(loss), in_dims=(0, 0, None, None))
        self.work, self.count = work, 0
        self.lr = torch.tensor(work.rates)
        self.m = {n: torch.zeros_like(p) for n, p in self.params.items()}
        self.v = {n: torch.zeros_like(p) for n, p in self.params.items()}

    def step(self):
        gradients, _ = self.gradients(self.params, self.buffers, self.work.x, self.work.y)
        self.count += 1
        with torch.no_grad():
            for n, g in gradients.items():
                lr = self.lr.view(-1, *[1] * (g.dim() - 1)) / (1 - 0.9**self.count)
                self.m[n].lerp_(g, 0.1)
                self.v[n].mul_(0.999).addcmul_(g, g, value=0.001)
                self.params[n].sub_(lr * self.m[n] / ((self.v[n] / (1 - 0.999**self.count)).sqrt_().add_(1e-8)))

    def time(self, steps):
        return timed(self.step, steps)


class Script:
    def __init__(self, work):
        self.work = work
        # The default executor profiles for several calls (docs/using_the_file.md).
        torch._C._jit_set_profiling_mode(False)
        self.model = torch.jit.load(str(work.fused)).train()

    def time(self, steps):
        return timed(lambda: self.model.train_step(self.work.x, self.work.y), steps)


class Run:
    def __init__(self, work):
        self.work = work

    def time(self, steps):
        data = self.work.folder / f"data{steps}.npz"
        if not data.exists():
            np.savez(data, x=np.concatenate([self.work.x.numpy()] * steps), y=np.concatenate([self.work.y.numpy()] * steps))
        log = self.work.folder / "log.jsonl"
        subprocess.run([self.work.bin / "chorus-run", self.work.fused, "--data", data, "--epochs", "1", "--batch-size",
                        str(self.work.n), "--shuffle", "none", "--threads", "1", "--quiet", "--log", log, "-o",
                        self.work.folder / "trained.pt"], check=True, stdout=subprocess.DEVNULL)
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        log.unlink()
        return rows[-1]["seconds"] / steps


def timed(step, steps):
    begin = time.perf_counter()
    for _ in range(steps):
        step()
    return (time.perf_counter() - begin) / steps


CONTENDERS = {"separate": Separate, "vmap": Vmap, "script": Script, "run": Run}


def steps_for(seconds, contender):
    """About 0.3 s a round; a process of its own gets more, so that its first steps, which make kernels, weigh little."""
    return max(3, min(400, int((3.0 if contender == "run" else 0.3) / max(seconds, 1e-6))))


def measure(name, rounds, bin_folder, contenders):
    with tempfile.TemporaryDirectory(prefix="chorus-bench-") as folder:
        work = Workload(name, Path(folder), bin_folder)
        runners = {c: CONTENDERS[c](work) for c in contenders}
        counts = {}
        for c, runner in runners.items():  # warm-up, and how long a step takes
            runner.time(3)
            counts[c] = steps_for(runner.time(3), c)
        times = {c: [] for c in contenders}
        for _ in range(rounds):
            for c, runner in runners.items():
                times[c].append(runner.time(counts[c]))
        return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=os.environ.get("CHORUS_BIN", "build/bin"))
    parser.add_argument("--workload", action="append", choices=list(WORKLOADS))
    parser.add_argument("--contender", action="append", choices=list(CONTENDERS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    contenders = args.contender or list(CONTENDERS)
    if "separate" not in contenders:
        contenders = ["separate", *contenders]
    results = {}
    print(f"{'workload':12} {'separate':>10} " + " ".join(f"{c:>8}" for c in contenders[1:]) + "   (times as fast as separate)")
    for name in args.workload or WORKLOADS:
        able = [c for c in contenders if c != "vmap" or name not in WITHOUT_VMAP]
        times = measure(name, args.rounds, args.bin.resolve(), able)
        ratios = {c: statistics.median(s / t for s, t in zip(times["separate"], times[c])) for c in able}
        results[name] = {"seconds_per_step": times, "ratio": ratios}
        base = statistics.median(times["separate"]) * 1e3
        print(f"{name:12} {base:>7.2f} ms " + " ".join(f"{ratios[c]:>7.2f}x" if c in ratios else f"{'-':>8}" for c in contenders[1:]), flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
