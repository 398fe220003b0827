# ctest: quick
"""Model files are untrusted: hostile and broken ones are refused by name, and everything that torch itself writes passes.

Both directions matter equally. The gate is asked through `chorus_unit` (many files in one process), and through chorus-fuse for
the exit code and that nothing is left behind.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))
import hostile

pytestmark = pytest.mark.filterwarnings("ignore")
BIN = Path(os.environ.get("CHORUS_BIN", "build/bin"))


def verdicts(paths, folder):
    """What the gate says of each file: "" or the message."""
    listing, out = folder / "list.txt", folder / "verdicts.txt"
    listing.write_text("".join(f"{p}\n" for p in paths))
    env = {**os.environ, "CHORUS_SCAN_LIST": str(listing), "CHORUS_SCAN_OUT": str(out)}
    run = subprocess.run([BIN / "chorus_unit", "--gtest_filter=ScanFiles.Verdicts"], env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    found = out.read_text().split("\x1e")[:-1]
    assert len(found) == len(paths)
    return found


@pytest.fixture(scope="module")
def hostile_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "m").mkdir()
    samples = list(hostile.samples(folder / "m"))
    return {s.name: (s, v) for s, v in zip(samples, verdicts([s.path for s in samples], folder))}


NAMES = [row[0] for row in hostile.CODE + hostile.PICKLES + hostile.ZIPS + hostile.FILES]


@pytest.mark.parametrize("name", NAMES)
def test_refused(hostile_files, name):
    sample, verdict = hostile_files[name]
    assert re.search(sample.expected, verdict), verdict or "the gate lets it pass"
    assert verdict.startswith(f"{sample.path}: "), verdict
    assert verdict.count("error:") == 1, verdict


@pytest.mark.parametrize("name", ["setstate", "save", "pickle_system", "zip_truncated", "file_module", "file_missing"])
def test_chorus_fuse_exits_with_1(hostile_files, name, tmp_path):
    sample, _ = hostile_files[name]
    out = tmp_path / "fused.pt"
    run = subprocess.run([BIN / "chorus-fuse", sample.path, "-o", out], capture_output=True, text=True)
    assert run.returncode == 1, run.stderr
    assert re.search(sample.expected, run.stderr), run.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_danger_is_real(tmp_path):
    """The samples do what they are refused for: plain torch.jit.load runs __setstate__."""
    line = ('  def __getstate__(self) -> int:\n    return 0\n  def __setstate__(self, s: Any) -> NoneType:\n'
            f'    torch.save(1, "{tmp_path}/owned")\n    return None\n')
    path = hostile.write(tmp_path / "evil.pt", hostile.with_code(lambda text: text + line))
    try:
        torch.jit.load(str(path))
    except Exception:
        pass
    assert (tmp_path / "owned").exists()
    assert "defines '__" in verdicts([path], tmp_path)[0]


class ControlFlow(nn.Module):
    """What scripted code may hold: loops, branches, containers, assertions, no_grad, methods named like operators."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
        self.save = nn.Linear(3, 3)
        self.table = {"a": torch.ones(3)}

    @torch.jit.export
    def seed(self, x: torch.Tensor, scale: float = float("inf")) -> torch.Tensor:
        return x.clamp(max=scale)

    def forward(self, x: torch.Tensor):
        outs = []
        for i, layer in enumerate(self.layers):
            x = layer(x) if i < 5 else x
            outs.append(x)
        while bool(x.sum() > 1e6):
            x = x / 2
        with torch.no_grad():
            y = self.save(x) * 2
        assert x.dim() == 2, f"rank {x.dim()}"
        if x.shape[0] == 0:
            raise ValueError("no rows: {}".format(x.shape))
        x[0] += self.table["a"]
        return self.seed(x, 2.0) + outs[0] + y, {"n": x.size(0)}


def zoo():
    x, image = torch.randn(4, 5, 8), torch.randn(2, 4, 8, 8)
    yield "lstm", nn.LSTM(8, 8, 2, bidirectional=True), (x,)
    yield "gru", nn.GRU(8, 8), (x,)
    yield "encoder", nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2), (x,)
    yield "transformer", nn.Transformer(8, 2, 1, 1, 16), (x, x)
    yield "attention", nn.MultiheadAttention(8, 2), (x, x, x)
    yield "norms", nn.Sequential(nn.BatchNorm2d(4), nn.GroupNorm(2, 4), nn.LayerNorm(8), nn.InstanceNorm2d(4)), (image,)
    yield "convs", nn.Sequential(nn.Conv2d(4, 4, 3, padding_mode="circular"), nn.ConvTranspose2d(4, 4, 3), nn.MaxPool2d(2)), (image,)
    yield "embedding", nn.EmbeddingBag(9, 3, max_norm=1.0), (torch.ones(2, 3).long(),)
    yield "flow", ControlFlow(), (torch.randn(2, 3),)
    try:
        import torchvision
    except ImportError:
        return
    for name in ["resnet18", "mobilenet_v3_small", "squeezenet1_1", "shufflenet_v2_x0_5", "efficientnet_b0", "vgg11_bn", "googlenet"]:
        options = {"init_weights": False} if name == "googlenet" else {}
        yield name, torchvision.models.get_model(name, num_classes=3, **options), (torch.randn(2, 3, 64, 64),)


def test_everything_that_torch_writes_passes(tmp_path):
    paths = []
    torch.manual_seed(0)
    for name, model, inputs in zoo():
        paths.append(tmp_path / f"{name}_script.pt")
        torch.jit.script(model).save(str(paths[-1]))
        if name == "flow":
            continue
        paths.append(tmp_path / f"{name}_trace.pt")
        with torch.no_grad():
            torch.jit.trace(model, inputs, check_trace=False, strict=False).save(str(paths[-1]))
    refused = [v for v in verdicts(paths, tmp_path) if v]
    assert refused == []
