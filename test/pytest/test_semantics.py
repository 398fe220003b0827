"""Each member trains as if alone: rows, stopping, isolation, resumption, mixed precision, against PyTorch and solo runs."""
import json
import signal
import subprocess
import time

import numpy as np
import pytest
import torch
from torch import nn

from chorus_testing import BIN, export, state, tool
from training_case import K, LRS, N, eager, make, turns_red

# --- data per member -----------------------------------------------------------------------------------------------------


def solo(case, k, *options, **more):
    case.run("--loss", "mse", "--optimizer", "adam", "--lr", LRS[k], *options, out="solo.pt", model=f"m{k}.pt", **more)
    return state(torch.jit.load(case.folder / "solo.pt"))


def test_each_member_has_its_own_rows_epochs_and_batches(single):
    subsets = [[0, 1, 2, 3, 4, 5, 6], [11, 3, 3, 7, 8], list(range(12))]
    (single.folder / "rows.json").write_text(json.dumps(subsets))
    tool("run", "fused.pt", "--data", "d.npz", "--batch-size", "3,2,2", "--epochs", "3,5,2", "--quiet", "-o", "t.pt", "--loss", "mse",
        "--optimizer", "adam", "--lr", ",".join(map(str, LRS)), "--subset", "rows.json", cwd=single.folder)
    got = single.members()
    for k, (batch, epochs) in enumerate(((3, 3), (2, 5), (2, 2))):
        (single.folder / "row.json").write_text(json.dumps([subsets[k]]))
        tool("run", f"m{k}.pt", "--data", "d.npz", "--batch-size", batch, "--epochs", epochs, "--quiet", "-o", "solo.pt", "--loss", "mse",
             "--optimizer", "adam", "--lr", LRS[k], "--subset", "row.json", cwd=single.folder)
        single.close(got[k], state(torch.jit.load(single.folder / "solo.pt")))


def test_bootstraps_differ_and_do_not_depend_on_company(single):
    options = ["--data", "d.npz", "--bootstrap", "--epochs", "3", "--batch-size", "4", "--quiet", "--loss", "mse", "--optimizer", "adam"]
    tool("run", "fused.pt", *options, "--lr", ",".join(map(str, LRS)), "-o", "t.pt", cwd=single.folder)
    got = single.members()
    tool("run", "m1.pt", *options, "--lr", LRS[1], "-o", "solo.pt", cwd=single.folder)
    single.close(got[1], state(torch.jit.load(single.folder / "solo.pt")))


def test_folds_are_scored_on_what_they_do_not_train_on(single):
    done = tool("run", "fused.pt", "--data", "d.npz", "--folds", "3", "--epochs", "1", "--batch-size", "4", "--loss", "mse", "--optimizer",
                "sgd", "--lr", "0", "-o", "t.pt", "--json", cwd=single.folder)
    rows = json.loads(done.stdout)["members"]
    for k in range(K):
        with torch.no_grad():
            each = nn.functional.mse_loss(make(k)(single.x), single.y, reduction="none").mean(1)
        # lr 0: the mean over all rows is the mean of the part (4 rows) and of the others (8)
        assert (8 * rows[k]["train_loss"] + 4 * rows[k]["val_loss"]) / 12 == pytest.approx(float(each.mean()), rel=1e-4)
    # Copies of one member: the parts are disjoint and make up the whole.
    tool("fuse", "m0.pt", "--replicate", "3", "-o", "copies.pt", cwd=single.folder)
    done = tool("run", "copies.pt", "--data", "d.npz", "--folds", "3", "--epochs", "1", "--batch-size", "4", "--loss", "mse", "--optimizer",
                "sgd", "--lr", "0", "-o", "t.pt", "--json", cwd=single.folder)
    parts = [row["val_loss"] for row in json.loads(done.stdout)["members"]]
    with torch.no_grad():
        whole = float(nn.functional.mse_loss(make(0)(single.x), single.y))
    assert sum(parts) / 3 == pytest.approx(whole, rel=1e-4) and len(set(parts)) == 3


def test_folds_are_summed_up(single):
    options = ["run", "fused.pt", "--data", "d.npz", "--folds", "3", "--epochs", "2", "--batch-size", "4", "--loss", "mse", "--optimizer", "sgd",
               "-o", "t.pt"]
    table = tool(*options, cwd=single.folder).stdout.splitlines()
    assert table[0] == "a..b: from the least to the greatest of the 3 members" and table[1].startswith("epoch 1/2")
    rows = {line.split()[0]: [float(word) for word in line.split()[-2:]] for line in table[-5:]}
    done = json.loads(tool(*options, "--json", cwd=single.folder).stdout)
    for i, name in enumerate(("train_loss", "val_loss")):
        each = [member[name] for member in done["members"]]
        assert done["mean"][name] == pytest.approx(np.mean(each)) and done["std"][name] == pytest.approx(np.std(each, ddof=1))
        assert rows["mean"][i] == pytest.approx(np.mean(each), rel=1e-4) and rows["std"][i] == pytest.approx(np.std(each, ddof=1), rel=1e-4)


# --- isolation -----------------------------------------------------------------------------------------------------------


def bytes_of(members, k):
    return {name: tensor.numpy().tobytes() for name, tensor in members[k].items()}


@pytest.mark.parametrize("how", ["freeze", "skip"])
def test_a_member_that_diverges_moves_no_other_bit(single, how):
    x = single.x.repeat(K, 2, 1).numpy()
    y = single.y.repeat(K, 2, 1).numpy()
    np.savez(single.folder / "stacked.npz", x=x, y=y)
    x[1, 10] = 3e38
    y[1, 10] = -3e38
    np.savez(single.folder / "bad.npz", x=x, y=y)
    options = ["--inputs", "stacked", "--epochs", "2", "--batch-size", "4", "--shuffle", "none", "--quiet", "--loss", "mse", "--optimizer",
               "adamw", "--lr", ",".join(map(str, LRS)), "--on-nan", how]
    tool("run", "fused.pt", "--data", "stacked.npz", *options, "-o", "good.pt", cwd=single.folder)
    done = tool("run", "fused.pt", "--data", "bad.npz", *options, "-o", "bad.pt", cwd=single.folder)
    assert "member 1 ('m1') is not finite in epoch 1, step 3" in done.stderr
    good, bad = single.members("good.pt"), single.members("bad.pt")
    for k in (0, 2):
        assert bytes_of(good, k) == bytes_of(bad, k)
    assert all(torch.isfinite(tensor).all() for tensor in bad[1].values())
    if how == "freeze":  # two steps, then nothing moves
        np.savez(single.folder / "two.npz", x=x[:, :8], y=y[:, :8])
        options[options.index("--epochs") + 1] = "1"
        tool("run", "fused.pt", "--data", "two.npz", *options, "-o", "two.pt", cwd=single.folder)
        assert bytes_of(single.members("two.pt"), 1) == bytes_of(bad, 1)


def test_by_default_a_member_goes_on_as_in_pytorch(single):
    y = single.y.repeat(K, 1, 1).numpy()
    y[1, 5] = np.nan
    np.savez(single.folder / "nan.npz", x=single.x.repeat(K, 1, 1).numpy(), y=y)
    done = tool("run", "fused.pt", "--data", "nan.npz", "--inputs", "stacked", "--epochs", "2", "--batch-size", "4", "--shuffle", "none", "--quiet",
                "--loss", "mse", "--optimizer", "sgd", "--lr", "0.1", "-o", "t.pt", cwd=single.folder)
    assert "the loss of member 1 ('m1') is not finite in epoch 1, step 2\n" in done.stderr
    members = single.members()
    assert all(torch.isnan(tensor).all() for tensor in members[1].values())
    assert all(torch.isfinite(tensor).all() for k in (0, 2) for tensor in members[k].values())


def test_on_nan_stop_ends_the_run(single):
    arrays = {"x": single.x.numpy(), "y": single.y.numpy().copy()}
    arrays["y"][7] = 3e38
    np.savez(single.folder / "bad.npz", **arrays)
    done = tool("run", "fused.pt", "--data", "bad.npz", "--loss", "mse", "--optimizer", "sgd", "--lr", "0.1", "--batch-size", "4", "--shuffle",
                "none", "-o", "none.pt", "--quiet", "--on-nan", "stop", ok=False, cwd=single.folder)
    assert done.returncode == 1 and "is not finite in epoch 1, step 2" in done.stderr
    assert not (single.folder / "none.pt").exists()


# --- stopping and going on -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restore", ["best", "last"])
def test_early_stopping_ends_each_member_by_itself(single, restore):
    rng = np.random.RandomState(3)
    np.savez(single.folder / "v.npz", x=rng.randn(9, 3).astype("f4"), y=rng.randn(9, 3).astype("f4"))
    lrs = [0.3, 0.05, 0.001]
    single.run("--loss", "mse", "--optimizer", "sgd", "--lr", ",".join(map(str, lrs)), "--val", "v.npz", "--patience", "3,2,4", "--min-delta",
               "0,0.001,0.003", "--restore", restore, "--json", epochs=40)
    report = json.loads(single.run("--loss", "mse", "--optimizer", "sgd", "--lr", ",".join(map(str, lrs)), "--val", "v.npz", "--patience",
                                   "3,2,4", "--min-delta", "0,0.001,0.003", "--restore", restore, "--json", epochs=40).stdout)["members"]
    got = single.members()
    v = np.load(single.folder / "v.npz")
    for k, patience, delta in zip(range(K), (3, 2, 4), (0, 0.001, 0.003)):
        net = make(k)
        optimizer = torch.optim.SGD(net.parameters(), lrs[k])
        best, bad, kept, best_epoch = None, 0, None, 0
        for epoch in range(1, 41):
            optimizer.zero_grad()
            nn.functional.mse_loss(net(single.x), single.y).backward()
            optimizer.step()
            with torch.no_grad():
                value = float(nn.functional.mse_loss(net(torch.from_numpy(v["x"])), torch.from_numpy(v["y"])))
            # As Keras: an epoch that is better by less than delta is not the best one.
            if best is None or value < best - delta:
                best, kept, best_epoch, bad = value, state(net), epoch, 0
            else:
                bad += 1
                if bad >= patience:
                    break
        assert report[k]["epochs"] == epoch
        assert report[k].get("best_epoch", 0) == (best_epoch if restore == "best" else 0)
        single.close(got[k], kept if restore == "best" else state(net))


RICH = ["--optimizer", "adam", "--lr", "0.02,0.05,0.1", "--lr-schedule", "cosine@step:T_max=40;reduce_on_plateau:patience=0;step:step_size=2",
        "--val-fraction", "0.25", "--ema", "0.9", "--patience", "3", "--accumulate", "2", "--clip-norm", "0.5", "--loss", "mse"]


def test_resuming_is_bit_equal(single):
    (single.folder / "ck" / "checkpoint.pt").unlink(missing_ok=True)
    base = ["run", "fused.pt", "--data", "d.npz", "--batch-size", "2", "--quiet", *RICH, "--log", "log.jsonl"]
    tool(*base, "--epochs", "9", "-o", "whole.pt", cwd=single.folder)
    tool(*base, "--epochs", "4", "-o", "part.pt", "--checkpoint", "ck", "--checkpoint-every", "2", cwd=single.folder)
    done = tool(*base, "--epochs", "9", "-o", "part.pt", "--checkpoint", "ck", ok=False, cwd=single.folder)
    assert done.returncode == 2 and "holds the checkpoint of another run" in done.stderr
    done = tool(*base, "--epochs", "9", "-o", "part.pt", "--resume", "ck", "--seed", "3", ok=False, cwd=single.folder)
    assert done.returncode == 1 and "--seed is 3, but the checkpointed run had 0" in done.stderr
    tool(*base, "--epochs", "9", "-o", "part.pt", "--resume", "ck", "--checkpoint-every", "2", cwd=single.folder)
    assert (single.folder / "whole.pt").read_bytes() == (single.folder / "part.pt").read_bytes()


@pytest.mark.parametrize("what", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_goes_on_where_it_was(single, what):
    base = [str(BIN / "chorus-run"), "fused.pt", "--data", "d.npz", "--batch-size", "1", "--quiet", *RICH, "--epochs", "400"]
    base[base.index("--patience") + 1] = "1000"
    subprocess.run([*base, "-o", "whole.pt"], cwd=single.folder, check=True, capture_output=True)
    run = [*base, "-o", "cut.pt", "--checkpoint-every", "40"]
    for file in (single.folder / "cut.ckpt" / "checkpoint.pt", single.folder / "cut.pt"):
        file.unlink(missing_ok=True)
    process = subprocess.Popen(run, cwd=single.folder, stderr=subprocess.PIPE, text=True)
    while not (single.folder / "cut.ckpt" / "checkpoint.pt").exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(what)
    message = process.communicate()[1]
    if process.returncode == 0:
        pytest.skip("the run was over before the signal came")
    if what == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 130 and "--resume cut.ckpt" in message
    assert not (single.folder / "cut.pt").exists()
    subprocess.run([*run, "--resume", "cut.ckpt"], cwd=single.folder, check=True, capture_output=True)
    assert (single.folder / "whole.pt").read_bytes() == (single.folder / "cut.pt").read_bytes()
    assert not (single.folder / "cut.ckpt").exists()


@pytest.mark.parametrize("model", ["fused.pt", "m1.pt"])
def test_a_trained_file_keeps_its_optimizer(single, model):
    options = ["--loss", "mse", "--optimizer", "adamw", "--lr", "0.05"]
    single.run(*options, model=model, epochs=7, out="whole.pt")
    single.run(*options, model=model, epochs=4, out="four.pt")
    again = options if model == "m1.pt" else []
    done = single.run(*again, model="four.pt", epochs=3, out="fresh.pt")
    assert "the optimizer's state starts afresh" in done.stderr
    done = single.run(*again, "--keep-optimizer", model="four.pt", epochs=3, out="kept.pt")
    assert "afresh" not in done.stderr
    # A plain member goes on with its own optimizer, and needs no options for it.
    whole = state(torch.jit.load(single.folder / "whole.pt"))
    kept = state(torch.jit.load(single.folder / "kept.pt"))
    parameters = [name for name in whole if not name.startswith("chorus.")]
    assert all(torch.equal(whole[name], kept[name]) for name in parameters)
    fresh = state(torch.jit.load(single.folder / "fresh.pt"))
    assert any(not torch.equal(whole[name], fresh[name]) for name in parameters)


def test_a_split_member_leaves_with_its_optimizer_and_seed(single):
    options = ["--loss", "mse", "--optimizer", "adam", "--lr", ",".join(map(str, LRS))]
    single.run(*options, epochs=4, out="four.pt")
    single.run("--keep-optimizer", model="four.pt", epochs=3, out="seven.pt")
    want = single.members("seven.pt")
    single.members("four.pt")
    for k in range(K):
        single.run("--loss", "mse", "--keep-optimizer", model=f"members/m{k}.pt", epochs=3, out="one.pt")
        single.close(state(torch.jit.load(single.folder / "one.pt")), want[k])


class Swapped(nn.Module):
    def __init__(self, swap):
        super().__init__()
        self.swap, self.a, self.b = swap, nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        a = nn.functional.dropout(self.a(x), 0.5, self.training)
        b = nn.functional.dropout(self.b(x), 0.5, self.training)
        return (b * a if self.swap else a * b) + torch.relu(a)


def test_random_nodes_are_numbered_by_each_member_itself(single):
    for k in range(K):
        torch.manual_seed(k)
        export(Swapped(k == 1), single.folder / f"s{k}.pt", single.x)
    tool("fuse", "s0.pt", "s1.pt", "s2.pt", "-o", "s.pt", cwd=single.folder)
    options = ["--data", "d.npz", "--loss", "mse", "--optimizer", "sgd", "--lr", "0.05", "--epochs", "3", "--batch-size", "4", "--quiet"]
    tool("run", "s.pt", *options, "-o", "st.pt", cwd=single.folder)
    tool("split", "st.pt", "-o", "parts", "--force", cwd=single.folder)
    for k in range(K):
        tool("run", f"s{k}.pt", *options, "-o", "solo.pt", cwd=single.folder)
        single.close(state(torch.jit.load(single.folder / "parts" / f"s{k}.pt")), state(torch.jit.load(single.folder / "solo.pt")))


def test_mixed_precision_is_pytorchs(single):
    single.run("--loss", "mse", "--optimizer", "sgd", "--lr", "0.05", "--amp", "bf16", epochs=10)
    got = single.members()
    for k in range(K):
        net = make(k)
        optimizer = torch.optim.SGD(net.parameters(), 0.05)
        for _ in range(10):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = nn.functional.mse_loss(net(single.x), single.y)
            loss.backward()
            optimizer.step()
        plain, _ = eager(single, k, lambda n: torch.optim.SGD(n.parameters(), 0.05), 10)
        for name, want in state(net).items():
            assert got[k][name].dtype == torch.float32
            assert float((got[k][name] - want).abs().max()) <= 0.01 * float(want.abs().max()), name
        assert different(got[k], plain)


def test_fp16_scales_each_members_loss_by_itself(single):
    """Member 1's gradients overflow at first: its scale halves and its steps are left out, as GradScaler does; nobody else's are."""
    x, y = single.x.repeat(K, 1, 1), single.y.repeat(K, 1, 1)
    np.savez(single.folder / "good.npz", x=x.numpy(), y=y.numpy())
    y[1] *= 30
    np.savez(single.folder / "large.npz", x=x.numpy(), y=y.numpy())
    options = ["--inputs", "stacked", "--epochs", "8", "--batch-size", N, "--shuffle", "none", "--quiet", "--loss", "mse", "--optimizer", "sgd",
               "--lr", "0.001", "--amp", "fp16"]
    for name in ("good", "large"):
        tool("run", "fused.pt", "--data", f"{name}.npz", *options, "-o", f"{name}.pt", cwd=single.folder)
    good, large = single.members("good.pt"), single.members("large.pt")
    for k in (0, 2):
        assert bytes_of(good, k) == bytes_of(large, k)
    for k in range(K):
        net, start = make(k), state(make(k))
        optimizer, scaler, skipped = torch.optim.SGD(net.parameters(), 0.001), torch.amp.GradScaler("cpu"), 0
        for _ in range(8):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                loss = nn.functional.mse_loss(net(single.x), y[k])
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            before = scaler.get_scale()
            scaler.update()
            skipped += scaler.get_scale() < before
        assert (skipped > 0) == (k == 1), f"member {k} leaves out {skipped} updates"
        for name, want in state(net).items():
            moved = float((want - start[name]).abs().max())
            assert float((large[k][name] - want).abs().max()) <= 0.02 * moved, f"member {k} {name}"


def different(a, b):
    return any(not torch.equal(a[name], b[name]) for name in a)


FAULTS = {
    "rows_of_member_zero": lambda case: test_folds_are_scored_on_what_they_do_not_train_on(case),
    "nan_goes_on": lambda case: test_a_member_that_diverges_moves_no_other_bit(case, "freeze"),
    "best_is_least": lambda case: test_early_stopping_ends_each_member_by_itself(case, "best"),
    "best_of_member_zero": lambda case: test_early_stopping_ends_each_member_by_itself(case, "best"),
    "resume_forgets": lambda case: test_resuming_is_bit_equal(case),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_turn_these_tests_red(single, monkeypatch, fault):
    turns_red(monkeypatch, fault, FAULTS[fault], single)
