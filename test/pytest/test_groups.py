# ctest: quick
"""Members that differ form groups; a fused file is proved against its members again."""
import json

import pytest
import torch
from torch import nn

from chorus_testing import export, tool


class Net(nn.Module):
    def __init__(self, width=4, act=torch.relu, scale=1.0):
        super().__init__()
        self.a, self.b = nn.Linear(4, width), nn.Linear(width, 4)
        self.act, self.scale = act, scale

    def forward(self, x):
        return self.b(self.act(self.a(x))) * self.scale


KINDS = [{}, {"width": 5}, {"act": torch.tanh}, {"width": 5}, {}, {"width": 5, "scale": 0.5}]
LOSS = ["--loss", "cross_entropy", "--optimizer", "sgd", "--no-verify"]


def files(folder, kinds):
    paths = []
    for k, kind in enumerate(kinds):
        torch.manual_seed(k)
        paths.append(export(Net(**kind), folder / f"m{k}.pt", torch.randn(4, 4)))
    return paths


def test_groups_are_the_fewest_and_the_largest_comes_first(tmp_path):
    rates = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    members = files(tmp_path, KINDS)
    tool("fuse", *members, "-o", tmp_path / "fused.pt", "--group", *LOSS, "--lr", ",".join(map(str, rates)))
    manifest = json.loads((tmp_path / "fused.json").read_text())
    assert manifest["members"] == [f"m{k}" for k in range(6)]
    assert manifest["groups"] == [{"file": "fused.0.pt", "members": ["m1", "m3", "m5"]},
                                  {"file": "fused.1.pt", "members": ["m0", "m4"]},
                                  {"file": "fused.2.pt", "members": ["m2"]}]
    for group in manifest["groups"]:
        fused = torch.jit.load(str(tmp_path / group["file"]))
        assert fused.member_names == group["members"]
        assert fused.chorus.lr.tolist() == [rates[int(name[1:])] for name in group["members"]]
    before = (tmp_path / "fused.0.pt").read_bytes()
    tool("fuse", *members, "-o", tmp_path / "fused.pt", "--group", *LOSS, "--lr", ",".join(map(str, rates)))
    assert (tmp_path / "fused.0.pt").read_bytes() == before


def test_members_that_agree_are_one_group_with_a_manifest(tmp_path):
    tool("fuse", *files(tmp_path, [{}, {}]), "-o", tmp_path / "fused.pt", "--group", *LOSS, "--lr", "0.1")
    assert sorted(p.name for p in tmp_path.glob("fused*")) == ["fused.0.pt", "fused.json"]


def test_a_group_that_cannot_be_fused_leaves_no_file(tmp_path):
    done = tool("fuse", *files(tmp_path, KINDS), "-o", tmp_path / "fused.pt", "--group", *LOSS, "--lr", "0.1,0.2", ok=False)
    assert done.returncode == 1 and not list(tmp_path.glob("fused*"))


def test_plan_of_groups_writes_nothing(tmp_path):
    done = tool("fuse", *files(tmp_path, KINDS), "--plan", "--group", "--json")
    assert [g["members"] for g in json.loads(done.stdout)["groups"]] == [["m1", "m3", "m5"], ["m0", "m4"], ["m2"]]
    assert not list(tmp_path.glob("*.json"))


@pytest.fixture
def fused(tmp_path):
    members = files(tmp_path, [{"scale": 1.0}, {"scale": 0.5}, {"scale": 2.0}])
    tool("fuse", *members, "-o", tmp_path / "fused.pt", *LOSS, "--lr", "0.1")
    return tmp_path, members


def test_check_accepts_the_members_that_were_fused(fused):
    folder, members = fused
    done = tool("fuse", *members, "--check", folder / "fused.pt")
    assert done.stdout == "the certificate holds for these 3 members, and so do all weights\n"


def refused(folder, members, file="fused.pt"):
    done = tool("fuse", *members, "--check", folder / file, ok=False)
    assert done.returncode == 1 and "is not made from these members" in done.stderr, done.stderr
    return done.stderr


def test_check_refuses_other_members(fused):
    folder, members = fused
    assert "3 members, and 2 are given" in refused(folder, members[:2])
    assert "member 1" in refused(folder, [members[0], members[2], members[1]])
    torch.manual_seed(9)
    other = export(Net(scale=0.5), folder / "other.pt", torch.randn(4, 4))
    assert "'a.weight' of member 1" in refused(folder, [members[0], other, members[2]])
    tanh = export(Net(scale=0.5, act=torch.tanh), folder / "tanh.pt", torch.randn(4, 4))
    refused(folder, [members[0], tanh, members[2]])


def test_check_refuses_a_file_with_other_numbers(fused):
    folder, members = fused
    model = torch.jit.load(str(folder / "fused.pt"))
    with torch.no_grad():
        model.chorus.varying_0[1] = 0.75
    model.save(str(folder / "changed.pt"))
    assert "numbers per member" in refused(folder, members, "changed.pt")


def test_a_manifest_is_trained_and_split_like_a_file(tmp_path):
    import numpy as np

    members = files(tmp_path, KINDS)
    rates = "0.1,0.2,0.3,0.4,0.5,0.6"
    tool("fuse", *members, "-o", tmp_path / "fused.pt", "--group", "--no-verify")
    g = np.random.default_rng(0)
    np.savez(tmp_path / "d.npz", x=g.standard_normal((12, 4)).astype("float32"), y=g.integers(0, 4, 12))
    how = ["--data", tmp_path / "d.npz", "--batch-size", 4, "--epochs", 2, "--loss", "cross_entropy", "--optimizer", "sgd"]
    tool("run", tmp_path / "fused.json", *how, "--lr", rates, "-o", tmp_path / "t.pt")
    assert json.loads((tmp_path / "t.json").read_text())["groups"][1] == {"file": "t.1.pt", "members": ["m0", "m4"]}
    tool("split", tmp_path / "t.json", "-o", tmp_path / "out")
    for k, rate in enumerate(rates.split(",")):
        tool("run", members[k], *how, "--lr", rate, "-o", tmp_path / "alone.pt")
        alone = torch.jit.load(str(tmp_path / "alone.pt")).state_dict()
        for name, value in torch.jit.load(str(tmp_path / "out" / f"m{k}.pt")).state_dict().items():
            torch.testing.assert_close(value, alone[name], rtol=1e-4, atol=1e-6)


def manifest_and_data(folder, classes=4):
    import numpy as np

    members = files(folder, [{}, {"width": 5}, {}, {"width": 5}])
    tool("fuse", *members, "-o", folder / "fused.pt", "--group", "--loss", "cross_entropy", "--optimizer", "adam", "--no-verify")
    np.savez(folder / "d.npz", x=np.ones((6, 4), "float32"), y=np.arange(6) % classes)
    return folder / "fused.json", ["--data", folder / "d.npz", "--quiet"]


@pytest.mark.parametrize("option", ["--lr=0.1,0.2", "--batch-size=2,3", "--betas=0.9,0.99;0.8,0.9"])
def test_values_are_counted_against_all_members_of_a_manifest(tmp_path, option):
    manifest, data = manifest_and_data(tmp_path)
    failed = tool("run", manifest, *data, option, "-o", tmp_path / "t.pt", ok=False)
    assert failed.returncode == 1
    assert f"{option.split('=')[0]} has 2 values for 4 members" in failed.stderr


def test_one_pair_holds_for_all_members_of_a_manifest(tmp_path):
    manifest, data = manifest_and_data(tmp_path)
    tool("run", manifest, *data, "--betas", "0.5,0.25", "-o", tmp_path / "t.json")
    assert sorted(p.name for p in tmp_path.glob("t.*")) == ["t.0.pt", "t.1.pt", "t.json"]
    for group in (0, 1):
        assert torch.jit.load(str(tmp_path / f"t.{group}.pt")).chorus.beta1.tolist() == [0.5, 0.5]


def test_a_group_that_fails_takes_back_the_files_of_the_others(tmp_path):
    manifest, data = manifest_and_data(tmp_path)
    (tmp_path / "fused.1.pt").write_bytes(b"no model")
    failed = tool("run", manifest, *data, "-o", tmp_path / "t.pt", ok=False)
    assert failed.returncode == 1
    assert not list(tmp_path.glob("t.*"))


@pytest.mark.parametrize("text, message", [("{", "not a manifest"), ('{"format": 9}', "format 9"),
                                           ('{"format": 1, "members": ["a"], "groups": []}', "each member into one group"),
                                           ('{"format": 1, "members": ["a"], "groups": [{"file": "../x.pt", "members": ["a"]}]}', "file name")])
def test_damaged_manifests_are_refused(tmp_path, text, message):
    (tmp_path / "bad.json").write_text(text)
    done = tool("split", tmp_path / "bad.json", "-o", tmp_path / "out", ok=False)
    assert done.returncode == 1 and message in done.stderr, done.stderr
