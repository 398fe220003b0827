"""chorus-run and chorus-split against eager PyTorch, and fused against solo runs."""
import json
import math

import numpy as np
import pytest
import torch
from torch import nn

from chorus_testing import export, state, tool

LRS = [0.01, 0.03, 0.1]
MEMBERS = range(3)


class Net(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(8, 8), nn.Dropout(p), nn.Linear(8, 3)

    def forward(self, x):
        return self.last(self.drop(torch.tanh(self.first(x))))


def make(folder, p):
    rng = np.random.RandomState(0)
    x = rng.randn(22, 8).astype("f4")
    np.savez(folder / "d.npz", x=x, y=(x[:, 0] > 0).astype("u1") + (x[:, 1] > 0))
    for k in MEMBERS:
        torch.manual_seed(k)
        export(Net(p), folder / f"m{k}.pt", torch.zeros(8, 8))
    tool("fuse", *[f"m{k}.pt" for k in MEMBERS], "-o", "fused.pt", "--loss", "cross_entropy", "--optimizer", "sgd",
         "--lr", ",".join(map(str, LRS)), "--momentum", "0.9", cwd=folder)
    return folder


@pytest.fixture(scope="module")
def dropout(tmp_path_factory):
    return make(tmp_path_factory.mktemp("dropout"), 0.5)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return make(tmp_path_factory.mktemp("plain"), 0.0)


def trained(folder, *options, epochs="3", out="trained.pt"):
    tool("run", "fused.pt", "--data", "d.npz", "--batch-size", "4", "--epochs", epochs, "--quiet", "-o", out, *options,
         cwd=folder)
    tool("split", out, "-o", "members", "--force", cwd=folder)
    return [state(torch.jit.load(folder / "members" / f"m{k}.pt")) for k in MEMBERS]


def solo(folder, k, *options, epochs="3"):
    tool("run", f"m{k}.pt", "--data", "d.npz", "--batch-size", "4", "--epochs", epochs, "--quiet", "-o", "solo.pt",
         "--loss", "cross_entropy", "--optimizer", "sgd", "--lr", LRS[k], "--momentum", "0.9", *options, cwd=folder)
    return state(torch.jit.load(folder / "solo.pt"))


def assert_close(got, want, tolerance=1e-5):
    assert list(got) == list(want)
    for name in want:
        scale = float(want[name].abs().max()) or 1.0
        assert float((got[name] - want[name]).abs().max()) <= tolerance * scale, name


def different(a, b):
    return any(not torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("shuffle", ["shared", "member", "none"])
def test_fused_is_solo_is_unfused(dropout, shuffle):
    fused = trained(dropout, "--shuffle", shuffle)
    apart = trained(dropout, "--shuffle", shuffle, "--unfused")
    for k in MEMBERS:
        assert_close(fused[k], solo(dropout, k, "--shuffle", shuffle))
        assert_close(fused[k], apart[k])


def test_place_and_company_do_not_matter(dropout):
    tool("fuse", "m2.pt", "m0.pt", "-o", "two.pt", "--loss", "cross_entropy", "--optimizer", "sgd", "--lr",
         f"{LRS[2]},{LRS[0]}", "--momentum", "0.9", cwd=dropout)
    tool("run", "two.pt", "--data", "d.npz", "--batch-size", "4", "--epochs", "3", "--quiet", "-o", "two_t.pt", cwd=dropout)
    tool("split", "two_t.pt", "-o", "two", "--force", cwd=dropout)
    fused = trained(dropout)
    for k in (0, 2):
        assert_close(state(torch.jit.load(dropout / "two" / f"m{k}.pt")), fused[k])


def test_seeds_matter(dropout):
    base = trained(dropout, "--shuffle", "none")
    assert different(base[0], trained(dropout, "--shuffle", "none", "--seed", "1")[0])
    other = trained(dropout, "--shuffle", "none", "--member-seed", "7,8,9")
    assert all(different(base[k], other[k]) for k in MEMBERS)


def test_same_command_same_bytes(dropout):
    trained(dropout, out="one.pt")
    trained(dropout, out="again.pt")
    assert (dropout / "one.pt").read_bytes() == (dropout / "again.pt").read_bytes()


def test_resting_members_keep_every_byte(dropout):
    one = trained(dropout, epochs="1")
    several = trained(dropout, epochs="1,3,2")
    assert not different(one[0], several[0])
    assert different(one[1], several[1])
    assert_close(several[2], solo(dropout, 2, epochs="2"))


def eager(folder, k, accumulate=1, clip_norm=math.inf, clip_value=math.inf):
    arrays = np.load(folder / "d.npz")
    x, y = torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["y"]).long()
    torch.manual_seed(k)
    net = Net(0.0)
    optimizer = torch.optim.SGD(net.parameters(), lr=LRS[k], momentum=0.9)
    for _ in range(3):
        batches = list(zip(x.split(4), y.split(4)))
        for at in range(0, len(batches), accumulate):
            group = batches[at : at + accumulate]
            optimizer.zero_grad()
            for rows, labels in group:
                (nn.functional.cross_entropy(net(rows), labels) / len(group)).backward()
            nn.utils.clip_grad_norm_(net.parameters(), clip_norm)
            nn.utils.clip_grad_value_(net.parameters(), clip_value)
            optimizer.step()
    return state(net)


@pytest.mark.parametrize("options", [
    {}, {"accumulate": 4}, {"clip_norm": [0.1, 0.05, math.inf]}, {"clip_value": [0.02, math.inf, 0.01]},
    {"accumulate": 2, "clip_norm": [0.1, 0.2, 0.05]},
], ids=str)
def test_updates_are_those_of_pytorch(plain, options):
    arguments = []
    for name, value in options.items():
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        arguments += ["--" + name.replace("_", "-"), text]
    fused = trained(plain, "--shuffle", "none", *arguments)
    for k in MEMBERS:
        mine = {n: v[k] if isinstance(v, list) else v for n, v in options.items()}
        assert_close(fused[k], eager(plain, k, **mine))


def test_evaluate_and_predict(plain):
    report = json.loads(tool("run", "fused.pt", "--data", "d.npz", "--evaluate", "--json", "--batch-size", "5",
                             cwd=plain).stdout)
    tool("run", "fused.pt", "--data", "d.npz", "--predict", "out.npz", "--batch-size", "5", cwd=plain)
    said = json.loads(tool("run", "m1.pt", "--data", "d.npz", "--predict", "out1.npz", "--json", cwd=plain).stdout)
    assert said["predictions"] == "out1.npz" and said["members"] == ["m1"]
    assert said["arrays"] == {"output": list(np.load(plain / "out1.npz")["output"].shape)}
    arrays, output = np.load(plain / "d.npz"), np.load(plain / "out.npz")["output"]
    x, y = torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["y"]).long()
    for k in MEMBERS:
        torch.manual_seed(k)
        want = Net(0.0).eval()(x).detach()
        np.testing.assert_allclose(output[k], want.numpy(), rtol=1e-5, atol=1e-6)
        row = report["members"][k]
        assert row["member"] == f"m{k}"
        assert row["loss"] == pytest.approx(float(nn.functional.cross_entropy(want, y)), rel=1e-5)
        assert row["accuracy"] == pytest.approx(float((want.argmax(1) == y).float().mean()))
    np.testing.assert_allclose(np.load(plain / "out1.npz")["output"], output[1], rtol=1e-5, atol=1e-6)


def test_log_has_a_line_per_epoch(plain):
    tool("run", "fused.pt", "--data", "d.npz", "--val-fraction", "0.25", "--epochs", "1,2,2", "-o", "t.pt", "--log",
         "log.jsonl", cwd=plain)
    lines = [json.loads(line) for line in (plain / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]
    assert lines[1]["active"] == [False, True, True] and lines[1]["train_loss"][0] is None
    assert all(0 <= value <= 1 for value in lines[0]["val_accuracy"])
    assert all(0 <= value <= 1 for value in lines[0]["train_accuracy"]) and lines[1]["train_accuracy"][0] is None
    assert lines[0]["lr"] == LRS


def test_the_accuracy_of_training_counts_right_rows(plain):
    """With a rate of 0 it is the accuracy of the network as it is."""
    done = tool("run", "fused.pt", "--data", "d.npz", "--lr", "0", "--batch-size", "4", "-o", "t.pt", "--json", cwd=plain)
    scores = json.loads(tool("run", "fused.pt", "--data", "d.npz", "--evaluate", "--json", cwd=plain).stdout)["members"]
    for trained_row, row in zip(json.loads(done.stdout)["members"], scores):
        assert trained_row["train_accuracy"] == pytest.approx(row["accuracy"])


def test_a_table_is_the_same_as_options(plain):
    (plain / "h.csv").write_text('member,lr,momentum,epochs,batch-size,lr-schedule\nm2,0.1,0.9,2,4,exponential:gamma=0.5\n'
                                 'm0,0.01,0.5,3,4,"step:step_size=1,gamma=0.1"\nm1,0.03,0,1,8,\n')
    options = ["run", "fused.pt", "--data", "d.npz", "--quiet"]
    tool(*options, "--hparams", "h.csv", "-o", "table.pt", cwd=plain)
    tool(*options, "--lr", "0.01,0.03,0.1", "--momentum", "0.5,0,0.9", "--epochs", "3,1,2", "--batch-size", "4,8,4", "--lr-schedule",
         "step:step_size=1,gamma=0.1;constant;exponential:gamma=0.5", "-o", "options.pt", cwd=plain)
    assert (plain / "table.pt").read_bytes() == (plain / "options.pt").read_bytes()


def test_replicas_draw_their_own_masks(dropout):
    tool("fuse", "m0.pt", "--replicate", "3", "-o", "copies.pt", "--loss", "cross_entropy", "--optimizer", "sgd", "--lr", "0.1", cwd=dropout)
    tool("run", "copies.pt", "--data", "d.npz", "--epochs", "2", "--batch-size", "4", "--quiet", "-o", "copies_t.pt", cwd=dropout)
    tool("split", "copies_t.pt", "-o", "copies", "--force", cwd=dropout)
    copies = [state(torch.jit.load(dropout / "copies" / f"m0.{k}.pt")) for k in MEMBERS]
    assert different(copies[0], copies[1]) and different(copies[1], copies[2]) and different(copies[0], copies[2])


def test_stacked_inputs_are_each_members_own(plain):
    arrays = np.load(plain / "d.npz")
    x = np.stack([arrays["x"] + k for k in MEMBERS])
    y = np.stack([(arrays["y"] + k) % 3 for k in MEMBERS])
    np.savez(plain / "stacked.npz", x=x, y=y)
    tool("run", "fused.pt", "--data", "stacked.npz", "--inputs", "stacked", "--epochs", "2", "--batch-size", "4", "--quiet", "-o", "s.pt", cwd=plain)
    tool("split", "s.pt", "-o", "members", "--force", cwd=plain)
    for k in MEMBERS:
        np.savez(plain / "mine.npz", x=x[k], y=y[k])
        tool("run", f"m{k}.pt", "--data", "mine.npz", "--epochs", "2", "--batch-size", "4", "--quiet", "-o", "solo.pt", "--loss", "cross_entropy",
             "--optimizer", "sgd", "--lr", LRS[k], "--momentum", "0.9", cwd=plain)
        assert_close(state(torch.jit.load(plain / "members" / f"m{k}.pt")), state(torch.jit.load(plain / "solo.pt")))


def test_split_says_that_its_output_is_a_folder(plain):
    done = tool("split", "fused.pt", "-o", "fused.pt", ok=False, cwd=plain)
    assert done.returncode == 2
    assert done.stderr == ("error: -o is a folder for one file per member, but 'fused.pt' is the fused file itself\n"
                           "  help: chorus-split fused.pt -o members/\n")


def test_state_dicts_load_in_pytorch(plain):
    tool("split", "fused.pt", "-o", "weights", "--state-dict", cwd=plain)
    for k in MEMBERS:
        weights = torch.load(plain / "weights" / f"m{k}.pt", weights_only=True)
        assert type(weights) is dict
        torch.manual_seed(k)
        want = state(Net(0.0))
        assert all(torch.equal(weights[name], want[name]) for name in want) and len(weights) == len(want)
        Net(0.0).load_state_dict(weights)


def test_split_refuses_before_it_writes(plain):
    folder = plain / "taken"
    folder.mkdir()
    (folder / "m1.pt").write_text("mine")
    done = tool("split", "fused.pt", "-o", "taken", ok=False, cwd=plain)
    assert done.returncode == 1
    assert done.stderr == "error: 'taken/m1.pt' exists\n  help: --force replaces them\n"
    assert sorted(p.name for p in folder.iterdir()) == ["m1.pt"]


def arrays_with(x=None, y=None, **more):
    rng = np.random.RandomState(0)
    return {"x": rng.randn(9, 8).astype("f4") if x is None else x, "y": np.arange(9) % 3 if y is None else y, **more}


NAN = arrays_with()["x"].copy()
NAN[7, 2] = np.nan
REFUSALS = {
    "nan": (arrays_with(x=NAN), "bad.npz: error: array 'x' has NaN in row 7\n"),
    "label": (arrays_with(y=np.array([0, 1, 2, 0, 3, 0, 0, 0, 0])),
              "bad.npz: error: array 'y' has the value 3 in row 4, but class numbers lie in 0..2\n"),
    "rows": (arrays_with(y=np.zeros(8, "i8")), "bad.npz: error: array 'y' has 8 rows, but array 'x' has 9\n"),
    "width": (arrays_with(x=np.zeros((9, 7), "f4")),
              "bad.npz: error: array 'x' has sizes [9, 7], but the model's input is f32[N,8]\n"),
    "float labels": (arrays_with(y=np.zeros(9, "f4")),
                     "bad.npz: error: array 'y' has dtype f32, but class numbers of 'cross_entropy' have an integer dtype\n"),
    "rank": (arrays_with(y=np.zeros((9, 1), "i8")),
             "bad.npz: error: array 'y' has sizes [9, 1], but the target of 'cross_entropy' has rank 1 here\n"
             "  help: a target never broadcasts: reshape it when you write the file\n"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_bad_data_is_refused_by_place(plain, case):
    arrays, message = REFUSALS[case]
    np.savez(plain / "bad.npz", **arrays)
    done = tool("run", "fused.pt", "--data", "bad.npz", "-o", "none.pt", ok=False, cwd=plain)
    assert (done.returncode, done.stderr) == (1, message)
    assert not (plain / "none.pt").exists()


@pytest.mark.parametrize("options,code,message", [
    ([], 2, "error: training needs -o TRAINED.pt; --evaluate and --predict do not train\n"),
    (["-o", "fused.pt"], 2, "error: the output 'fused.pt' is one of the inputs\n"),
    (["-o", "n.pt", "--loss", "mse"], 2, "error: the file was fused with the loss 'cross_entropy', not 'mse'\n"),
    (["-o", "n.pt", "--optimizer", "adam"], 2, "error: the file was fused with the optimizer 'sgd', not 'adam'\n"),
    (["-o", "n.pt", "--betas", "0.9,0.9"], 2,
     "error: optimizer 'sgd' has no hyperparameter 'betas'\n"
     "  note: it has --lr --momentum --dampening --weight-decay --nesterov --maximize\n"),
    (["-o", "n.pt", "--lr=-1"], 1, "error: --lr is -1 for member 0 ('m0'), but has to be 0 or more\n"),
    (["-o", "n.pt", "--lr", "1,2"], 1,
     "error: --lr has 2 values for 3 members\n  note: give one value for all members, or one for each\n"),
    (["-o", "n.pt", "--prune", "asha"], 3, "unsupported: option '--prune'\n"),
    (["-o", "n.pt", "--ema", "1"], 1, "error: --ema is 1, but has to be in [0, 1)\n"),
    (["-o", "n.pt", "--lr-schedule", "cosin:T_max=3"], 2,
     "error: there is no schedule 'cosin'\n  help: did you mean 'cosine'?\n"),
    (["-o", "n.pt", "--lr-schedule", "cosine"], 1, "error: schedule 'cosine': 'T_max' is missing\n"),
    (["-o", "n.pt", "--patience", "2"], 2, "error: --patience watches val_loss, but there is no validation data\n"
     "  help: give --val or --val-fraction, or --monitor train_loss\n"),
    (["-o", "n.pt", "--folds", "4"], 1, "error: --folds is 4, but there are 3 members\n"
     "  help: chorus-fuse --replicate 4 makes a member for each fold\n"),
], ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_wrong_command_lines(plain, options, code, message):
    done = tool("run", "fused.pt", "--data", "d.npz", *options, ok=False, cwd=plain)
    assert (done.returncode, done.stderr) == (code, message)
    assert not (plain / "n.pt").exists()
