"""--metric against scikit-learn, per member and over uneven batches."""
import json
import math

import numpy as np
import pytest
import torch
from sklearn import metrics
from torch import nn

from chorus_testing import export, tool

N = 23


def evaluated(folder, build, y, loss, names):
    x = torch.randn(N, 4, generator=torch.Generator().manual_seed(5))
    np.savez(folder / "d.npz", x=x.numpy(), y=y)
    nets = []
    for k in range(3):
        torch.manual_seed(k)
        nets.append(build())
        export(nets[-1], folder / f"m{k}.pt", x)
    tool("fuse", "m0.pt", "m1.pt", "m2.pt", "-o", "f.pt", "--loss", loss, cwd=folder)
    done = tool("run", "f.pt", "--data", "d.npz", "--evaluate", "--json", "--batch-size", "5", "--metric", names, cwd=folder)
    with torch.no_grad():
        return json.loads(done.stdout)["members"], [net(x).numpy() for net in nets]


def test_classes(tmp_path):
    y = np.random.RandomState(1).randint(0, 4, N)
    rows, outputs = evaluated(tmp_path, lambda: nn.Linear(4, 4), y, "cross_entropy", "accuracy,top2,f1,auroc,perplexity")
    for row, o in zip(rows, outputs):
        shares = torch.from_numpy(o).double().softmax(1).numpy()
        shares /= shares.sum(1, keepdims=True)
        assert row["accuracy"] == pytest.approx(metrics.accuracy_score(y, o.argmax(1)))
        assert row["top2"] == pytest.approx(metrics.top_k_accuracy_score(y, o, k=2))
        assert row["f1"] == pytest.approx(metrics.f1_score(y, o.argmax(1), average="macro"))
        assert row["auroc"] == pytest.approx(metrics.roc_auc_score(y, shares, multi_class="ovr"), rel=1e-6)
        assert row["perplexity"] == pytest.approx(math.exp(metrics.log_loss(y, shares)), rel=1e-5)


def test_two_classes(tmp_path):
    y = np.random.RandomState(2).randint(0, 2, N)
    rows, outputs = evaluated(tmp_path, lambda: nn.Linear(4, 2), y, "cross_entropy", "f1,auroc")
    for row, o in zip(rows, outputs):
        assert row["auroc"] == pytest.approx(metrics.roc_auc_score(y, o[:, 1] - o[:, 0]))
        assert row["f1"] == pytest.approx(metrics.f1_score(y, o.argmax(1), average="macro"))


def test_one_logit(tmp_path):
    y = np.random.RandomState(3).randint(0, 2, (N, 1)).astype("f4")
    rows, outputs = evaluated(tmp_path, lambda: nn.Linear(4, 1), y, "bce_with_logits", "f1,auroc")
    for row, o in zip(rows, outputs):
        assert row["auroc"] == pytest.approx(metrics.roc_auc_score(y[:, 0], o[:, 0]))
        assert row["f1"] == pytest.approx(metrics.f1_score(y[:, 0], o[:, 0] > 0))


def test_numbers(tmp_path):
    y = np.random.RandomState(4).randn(N, 3).astype("f4")
    rows, outputs = evaluated(tmp_path, lambda: nn.Linear(4, 3), y, "l1", "mse,mae,r2")
    for row, o in zip(rows, outputs):
        assert row["mse"] == pytest.approx(metrics.mean_squared_error(y, o), rel=1e-5)
        assert row["mae"] == pytest.approx(metrics.mean_absolute_error(y, o), rel=1e-5)
        assert row["r2"] == pytest.approx(metrics.r2_score(y, o), rel=1e-5)


@pytest.mark.parametrize("names,code,message", [
    ("acuracy", 2, "there is no metric 'acuracy'; did you mean 'accuracy'?"),
    ("accuracy", 1, "the metric 'accuracy' is for class numbers"),
])
def test_metrics_that_do_not_fit_are_refused(tmp_path, names, code, message):
    export(nn.Linear(4, 3), tmp_path / "m.pt", torch.zeros(2, 4))
    np.savez(tmp_path / "d.npz", x=np.zeros((5, 4), "f4"), y=np.zeros((5, 3), "f4"))
    done = tool("run", "m.pt", "--data", "d.npz", "--loss", "mse", "--evaluate", "--metric", names, ok=False, cwd=tmp_path)
    assert done.returncode == code and message in done.stderr


class Within(nn.Module):
    """The share of numbers within half of the largest gap: of all rows, no mean over batches."""

    def __init__(self):
        super().__init__()
        self.register_buffer("share", torch.tensor(0.5))

    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        gap = (output - target).abs()
        self.share.mul_(1.0)
        return (gap < self.share * gap.max()).to(torch.float32).mean()


class Classes(nn.Module):
    def forward(self, output: torch.Tensor, target: torch.Tensor) -> float:
        return float((output.argmax(1) == target).sum()) / float(target.max() + 1)


@pytest.mark.parametrize("metric,loss,y", [(Within, "mse", np.random.RandomState(4).randn(N, 3).astype("f4")),
                                           (Classes, "cross_entropy", np.random.RandomState(4).randint(0, 3, N))])
def test_a_metric_of_ones_own(tmp_path, metric, loss, y):
    torch.jit.script(metric()).save(str(tmp_path / "own.pt"))
    rows, outputs = evaluated(tmp_path, lambda: nn.Linear(4, 3), y, loss, f"{tmp_path / 'own.pt'},perplexity")
    for row, o in zip(rows, outputs):
        assert row["own"] == pytest.approx(float(metric()(torch.from_numpy(o), torch.from_numpy(y))), rel=1e-5)
    done = tool("run", "f.pt", "--data", "d.npz", "--val", "d.npz", "--epochs", "3", "--optimizer", "sgd", "--lr", "0", "--metric",
                "own.pt", "--patience", "1", "--monitor", "val_own", "-o", "t.pt", "--json", cwd=tmp_path)
    for row, trained in zip(rows, json.loads(done.stdout)["members"]):
        assert trained["val_own"] == pytest.approx(row["own"], rel=1e-5) and trained["epochs"] == 2


class OneArgument(nn.Module):
    def forward(self, output: torch.Tensor) -> torch.Tensor:
        return output.mean()


class Many(nn.Module):
    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return output - target


class Failing(nn.Module):
    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return output.view(7, 7).mean() + target.mean()


@pytest.mark.parametrize("metric,message", [(OneArgument, "forward of the metric takes 1 arguments, not an output and a target"),
                                            (Many, "forward of the metric returns a tensor of sizes [5, 3], not one number"),
                                            (Failing, "forward of the metric fails")])
def test_metrics_of_ones_own_that_cannot_be_are_refused(tmp_path, metric, message):
    torch.jit.script(metric()).save(str(tmp_path / "own.pt"))
    test_metrics_that_do_not_fit_are_refused(tmp_path, "own.pt", 1, f"own.pt: error: {message}")


def test_a_metric_file_passes_the_gate(tmp_path):
    torch.save({"a": torch.zeros(1)}, tmp_path / "own.pt")
    test_metrics_that_do_not_fit_are_refused(tmp_path, "own.pt", 1, "own.pt: error: ")


def test_one_probability(tmp_path):
    y = np.random.RandomState(3).randint(0, 2, (N, 1)).astype("f4")
    rows, outputs = evaluated(tmp_path, lambda: nn.Sequential(nn.Linear(4, 1), nn.Sigmoid()), y, "bce", "f1,auroc")
    for row, o in zip(rows, outputs):
        assert row["auroc"] == pytest.approx(metrics.roc_auc_score(y[:, 0], o[:, 0]))
        assert row["f1"] == pytest.approx(metrics.f1_score(y[:, 0], o[:, 0] > 0.5))


def test_columns_of_zeros_and_ones(tmp_path):
    y = np.random.RandomState(6).randint(0, 2, (N, 5)).astype("f4")
    rows, outputs = evaluated(tmp_path, lambda: nn.Linear(4, 5), y, "bce_with_logits", "f1,auroc")
    for row, o in zip(rows, outputs):
        assert row["auroc"] == pytest.approx(metrics.roc_auc_score(y, o, average="macro"))
        assert row["f1"] == pytest.approx(metrics.f1_score(y, o > 0, average="macro"))


def test_rows_that_the_loss_ignores_count_nowhere(tmp_path):
    y = np.random.RandomState(1).randint(0, 4, N)
    y[[2, 3, 11, 22]] = -100
    rows, outputs = evaluated(tmp_path, lambda: nn.Linear(4, 4), y, "cross_entropy", "accuracy,f1,auroc")
    kept = y != -100
    for row, o in zip(rows, outputs):
        shares = torch.from_numpy(o[kept]).double().softmax(1).numpy()
        shares /= shares.sum(1, keepdims=True)
        assert row["accuracy"] == pytest.approx(metrics.accuracy_score(y[kept], o[kept].argmax(1)))
        assert row["f1"] == pytest.approx(metrics.f1_score(y[kept], o[kept].argmax(1), average="macro"))
        assert row["auroc"] == pytest.approx(metrics.roc_auc_score(y[kept], shares, multi_class="ovr"), rel=1e-6)


def test_no_metric_is_reported_that_nobody_asked_for(tmp_path):
    y = np.random.RandomState(2).randint(0, 4, N)
    evaluated(tmp_path, lambda: nn.Linear(4, 4), y, "cross_entropy", "f1")
    done = tool("run", "f.pt", "--data", "d.npz", "--val", "d.npz", "--optimizer", "sgd", "--metric", "f1", "--json", "-o", "t.pt", cwd=tmp_path)
    assert set(json.loads(done.stdout)["members"][0]) == {"member", "epochs", "train_loss", "val_loss", "val_f1"}


def test_probabilities_have_no_f1(tmp_path):
    y = np.random.RandomState(2).rand(N, 4).astype("f4")
    with pytest.raises(AssertionError, match="the metric 'f1' is for class numbers, or for zeros and ones"):
        evaluated(tmp_path, lambda: nn.Linear(4, 4), y, "cross_entropy", "f1")
