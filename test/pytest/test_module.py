# ctest: quick
"""The Python module: fuse live and scripted modules in process, train, write the weights back."""
import warnings

import numpy as np
import pytest
import torch
from torch import nn, optim

from chorus_testing import MLP, assert_close, export, seeded, state, tool, train_eagerly

chorus = pytest.importorskip("chorus", reason="the Python module is not built here")

K, N = 3, 3
LR, DECAY = [0.1, 0.05, 0.01], [0.0, 0.1, 0.01]


def net():
    return MLP(3, 3, 3)


def batches(steps=20):
    generator = torch.Generator().manual_seed(5)
    return [(torch.randn(N, 3, generator=generator), torch.randint(0, 3, (N,), generator=generator)) for _ in range(steps)]


def members(build=net, k=K):
    return [seeded(build, i) for i in range(k)]


def fused_sgd(models, **options):
    options = {"loss": "cross_entropy", "optimizer": "sgd", "lr": LR, "weight_decay": DECAY, **options}
    return chorus.fuse(models, **options)


def as_trained_alone(models, steps):
    alone = [seeded(net, i) for i in range(len(models))]
    for k, module in enumerate(alone):
        train_eagerly(module, steps, nn.functional.cross_entropy,
                      lambda p, k=k: optim.SGD(p, lr=LR[k], weight_decay=DECAY[k]))
    return alone


@pytest.mark.parametrize("kind", ["live", "script", "trace"])
def test_training_and_writing_back_is_training_alone(kind):
    steps, models = batches(), members()
    given = {"live": lambda m: m, "script": torch.jit.script, "trace": lambda m: torch.jit.trace(m, steps[0][0])}[kind]
    given = [given(m) for m in models]
    options = {"live": {"example_inputs": steps[0][0]}, "script": {"input": "f32[N,3]"}, "trace": {}}[kind]
    fused = fused_sgd(given, **options)
    assert isinstance(fused, torch.jit.ScriptModule)
    for x, y in steps:
        assert fused.train_step(x, y).shape == (K,)
    before = [[p.data_ptr() for p in m.parameters()] for m in models]
    assert chorus.sync_(fused, models) is None
    assert before == [[p.data_ptr() for p in m.parameters()] for m in models]
    for mine, alone in zip(models, as_trained_alone(models, steps)):
        assert_close(state(mine), state(alone), 1e-5)


def test_fusing_leaves_the_models_and_the_generator_as_they_were():
    models = [seeded(lambda: nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5)), i) for i in range(K)]
    for module in models:
        module.eval()[2].train()
    states, modes = [state(m) for m in models], [[p.training for p in m.modules()] for m in models]
    draws = torch.random.get_rng_state()
    chorus.fuse(models, example_inputs=torch.ones(N, 3))
    assert torch.equal(draws, torch.random.get_rng_state())
    assert modes == [[p.training for p in m.modules()] for m in models]
    for module, kept in zip(models, states):
        assert all(torch.equal(v, kept[n]) for n, v in state(module).items())


def test_a_model_in_eval_mode_gives_a_module_that_can_do_both():
    models = [seeded(lambda: nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), i).eval() for i in range(K)]
    x = torch.randn(N, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fused = chorus.fuse(models, example_inputs=x, loss="mse")
    assert not fused.training
    evaluated, trained = fused(x), fused.train()(x)
    for k, module in enumerate(models):
        torch.testing.assert_close(evaluated[k], module(x))
        torch.testing.assert_close(trained[k], module.train()(x))


def test_several_inputs_and_a_structured_result():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x, y):
            return {"sum": self.a(x) + self.b(y), "last": y}

    models, x, y = members(Two), torch.randn(N, 3), torch.randn(N, 3)
    fused = chorus.fuse(models, example_inputs=(x, y))
    for k, module in enumerate(models):
        torch.testing.assert_close(fused(x, y)["sum"][k], module(x, y)["sum"])


def test_replicas_and_names():
    fused = chorus.fuse(net(), example_inputs=torch.randn(N, 3), replicate=4, init="reset", seeds=[1, 2, 3, 4])
    assert len(fused.member_names) == 4 and len({float(w.sum()) for w in fused.state_dict()["0.weight"]}) == 4
    named = chorus.fuse(members(), example_inputs=torch.randn(N, 3), names=["a", "b", "c"])
    assert list(named.member_names) == ["a", "b", "c"]


def test_the_same_options_as_on_the_command_line(tmp_path):
    x, y = batches(1)[0]
    weight = torch.tensor([0.5, 1.0, 2.0])
    mine = chorus.fuse(members(), example_inputs=x, loss="cross_entropy", optimizer="adam", lr=1e-2, amsgrad=True,
                       betas=[(0.9, 0.999), (0.5, 0.9), (0.0, 0.5)],
                       loss_args={"label_smoothing": [0.0, 0.1, 0.2], "weight": weight})
    np.save(tmp_path / "w.npy", weight.numpy())
    paths = [export(m, tmp_path / f"m{k}.pt", x) for k, m in enumerate(members())]
    tool("fuse", *paths, "-o", tmp_path / "fused.pt", "--loss", "cross_entropy", "--optimizer", "adam", "--lr", "1e-2",
         "--amsgrad", "--betas", "0.9,0.999;0.5,0.9;0.0,0.5", "--loss-arg", "label_smoothing=0.0,0.1,0.2",
         "--loss-arg", f"weight={tmp_path / 'w.npy'}")
    theirs = torch.jit.load(str(tmp_path / "fused.pt"))
    for _ in range(3):
        assert torch.equal(mine.train_step(x, y), theirs.train_step(x, y))
    for name, value in mine.state_dict().items():
        assert torch.equal(value, theirs.state_dict()[name]), name


class Tied(nn.Module):
    """One weight under two names, a buffer, a parameter that nothing reads."""

    def __init__(self, table=None):
        super().__init__()
        self.a, self.b, self.unused = nn.Linear(3, 3), nn.Linear(3, 3, bias=False), nn.Parameter(torch.zeros(3))
        self.b.weight = self.a.weight
        self.table = table if table is not None else nn.Parameter(torch.ones(3))
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x):
        return self.b(torch.tanh(self.a(x) * self.scale)) + self.table


def test_ties_stay_ties():
    models = members(Tied)
    fused = chorus.fuse(models, example_inputs=torch.randn(N, 3), loss="mse", optimizer="sgd", lr=0.1)
    fused.train_step(torch.randn(N, 3), torch.randn(N, 3))
    chorus.sync_(fused, models)
    for k, module in enumerate(models):
        assert module.a.weight is module.b.weight
        assert torch.equal(module.a.weight, fused.state_dict()["a.weight"][k])


def test_a_tensor_that_models_share_is_written_only_where_it_stayed_one():
    table = nn.Parameter(torch.ones(3), requires_grad=False)
    models = [seeded(lambda: Tied(table), k) for k in range(K)]
    fused = chorus.fuse(models, example_inputs=torch.randn(N, 3), loss="mse", optimizer="sgd", lr=0.1)
    fused.train_step(torch.randn(N, 3), torch.randn(N, 3))
    chorus.sync_(fused, models)
    assert models[0].table is table and torch.equal(table, torch.ones(3))
    table.requires_grad_(True)
    fused = chorus.fuse(models, example_inputs=torch.randn(N, 3), loss="mse", optimizer="sgd", lr=0.1)
    fused.train_step(torch.randn(N, 3), torch.randn(N, 3))
    before = state(models[2])
    with pytest.raises(chorus.Error) as refused:
        chorus.sync_(fused, models)
    assert str(refused.value) == "error: models[0].table and models[1].table are one tensor, but were trained to different values"
    assert all(torch.equal(v, before[n]) for n, v in state(models[2]).items())


def test_members_that_differ_are_refused_as_the_tool_refuses_them():
    models = [MLP(3, 3, 3), MLP(3, 3, 3), nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))]
    with pytest.raises(chorus.Error) as refused:
        chorus.fuse(models, example_inputs=torch.randn(N, 3))
    text = str(refused.value)
    assert text.startswith("model_2: ") and "member 2 differs from the other 2" in text and "/proc" not in text
    assert refused.value.exit_code == 1


REFUSALS = {
    "error: there is no model to fuse": lambda x: chorus.fuse([]),
    "model_0: error: it is a int, no nn.Module or ScriptModule": lambda x: chorus.fuse([3]),
    "model_0: error: it is a live MLP, and there are no example inputs\n"
    "  help: give example_inputs=, or script it with torch.jit.script": lambda x: chorus.fuse(members()),
    "error: the fused module has 3 members, and there are 2 models":
        lambda x: chorus.sync_(chorus.fuse(members(), example_inputs=x), members()[:2]),
    "error: this is no fused module: it has no submodule 'chorus'": lambda x: chorus.sync_(_unfused(), members()),
    "error: models[0] has a tensor 'unused', which the fused module does not have":
        lambda x: chorus.sync_(chorus.fuse(members(), example_inputs=x), members(Tied)),
}


def _unfused():
    module = torch.jit.script(net())
    module.member_names = ["a", "b", "c"]
    return module


@pytest.mark.parametrize("text", REFUSALS)
def test_refusals(text):
    with pytest.raises(chorus.Error) as refused:
        REFUSALS[text](torch.randn(N, 3))
    assert str(refused.value) == text


@pytest.mark.parametrize("options, words", [
    ({"optimiser": "adam"}, "optimiser"),
    ({"loss": "crossentropy"}, "did you mean 'cross_entropy'?"),
    ({"loss": "mse", "optimizer": "adam", "lr": [0.1, 0.2]}, "2"),
    ({"loss": "mse", "optimizer": "sgd", "lr": -1}, "has to be"),
    ({"disable": ["layot"]}, "did you mean 'layout'?"),
])
def test_wrong_options_are_refused_like_those_of_the_tool(options, words):
    with pytest.raises(chorus.Error) as refused:
        chorus.fuse(members(), example_inputs=torch.randn(N, 3), **options)
    assert words in str(refused.value)


def test_the_report_says_what_was_fused():
    fused = chorus.fuse(members(), example_inputs=torch.randn(N, 3))
    assert fused.chorus_report["verified"]["checked"]
    assert not chorus.fuse(members(), example_inputs=torch.randn(N, 3), no_verify=True).chorus_report["verified"]["checked"]
