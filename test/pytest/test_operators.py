# ctest: quick
"""Operators as networks use them, whose arguments no line of a conformance sample can write: fused equals each member alone."""
import io

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from chorus_testing import assert_close, export, seeded, tool

chorus = pytest.importorskip("chorus", reason="the Python module is not built here")

N = C = 4
COUNTS = torch.tensor([1, 2, 0, 1])


class Net(nn.Module):
    function, shape = None, (N, C)

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.rand(self.shape) + 0.1)

    def forward(self, x):
        return type(self).function(x, self.w)


class FastPath(nn.Module):
    """Takes the encoder's own kernel in eval mode without gradients."""

    shape = (N, C, C)

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(C, 2, 8, dropout=0.0, batch_first=True)
        self.net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x):
        return self.net(x)


def bags(mode, offsets=True, own=True, weighted=False, **options):
    """The indices of x's rows (of each member's own, where x is) or the same for all; bags of 2, 0, 1 and 1."""
    def function(x, w):
        rows = (x * C).long() % C if own else torch.tensor([[1, 3, 1, 2], [0, 1, 1, 1], [3, 3, 2, 0], [2, 1, 0, 3]])
        weights = x if weighted else None
        if offsets:
            ends = [0, 2, 2, 3, 4] if options.get("include_last_offset") else [0, 2, 2, 3]
            rows, weights = rows[0], weights[0] if weighted else None
            return F.embedding_bag(rows, w, torch.tensor(ends), mode=mode, per_sample_weights=weights, **options) + x[:, :1]
        return F.embedding_bag(rows, w, mode=mode, per_sample_weights=weights, **options) + x[:, :1]
    return function, (N, C), (C, C)


def multi_head(separate=False, extra=False, bias=True, unbatched=False, static=False, **options):
    """F.multi_head_attention_forward on x [L,N,E], its weights cut from one row of numbers."""
    def function(x, w):
        at = iter(w.split(C))

        def matrix(rows=C):
            return torch.cat([next(at) for _ in range(rows)]).view(rows, C)

        x = x[:, 0] if unbatched else x
        given = dict(in_proj_weight=None if separate else matrix(3 * C), in_proj_bias=matrix(3).flatten() if bias else None,
                     bias_k=matrix(1)[None] if extra else None, bias_v=matrix(1)[None] if extra else None, out_proj_weight=matrix(),
                     out_proj_bias=next(at) if bias else None)
        if separate:
            given.update(use_separate_proj_weight=True, q_proj_weight=matrix(), k_proj_weight=matrix(), v_proj_weight=matrix())
        if static:  # [N H, S, E / H]
            given.update(static_k=w[:96].view(8, 6, 2), static_v=w[-96:].view(8, 6, 2))
        masks = {name: mask(x) if callable(mask) else mask for name, mask in options.items()}
        y, weights = F.multi_head_attention_forward(
            x, x * 0.5, x + 1, C, 2, **{"add_zero_attn": False, "dropout_p": 0.0, "training": True, **given, **masks})
        return y if weights is None else torch.cat([y.flatten(), weights.flatten()])
    return function, (C, N, C), (C * 30,)


def windows(x):
    """Overlapping parts of rows, as Longformer cuts them."""
    rows = x.contiguous().view(2, 8)
    return rows.as_strided((2, 3, 4), (8, 2, 1))


def written(x, where, values):
    x = x * 1
    x[where] = values
    return x


ALL = slice(None)
SOME, BOTH, PLACES = torch.tensor([True, False, True, False]), torch.rand(N, C, generator=torch.Generator().manual_seed(2)) > 0.5, torch.tensor([3, 0])
MASKED = {
    "x[m]": lambda x, w: (x * w)[SOME].sin(),
    "x[m2]": lambda x, w: (x * w)[BOTH],
    "x[:, m]": lambda x, w: (x * w)[:, SOME] * w,
    "x[:, m2]": lambda x, w: (x * w)[:, BOTH],
    "x[m, m]": lambda x, w: (x * w)[SOME, SOME],
    "x[m, :, i]": lambda x, w: (x * w)[SOME, :, PLACES],
    "x[:, i, m]": lambda x, w: (x * w)[:, PLACES, SOME],
    "x[m, own]": lambda x, w: (x * w)[SOME, (x[0, 0, :2] * C).long() % C],
    "x[:, own, m]": lambda x, w: (x * w)[:, (x[0, 0, :2] * C).long() % C, SOME],
    "x[own, :, m]": lambda x, w: (x * w)[(x[0, 0, :2] * C).long() % C, :, SOME],
    "masked_select": lambda x, w: torch.masked_select(x * w, BOTH),
    "masked_select, a mask of higher rank": lambda x, w: torch.masked_select((x * w)[0, 0], BOTH),
    "x[m] = y[m]": lambda x, w: written(x, SOME, (x * w)[SOME]),
    "x[:, m] = y": lambda x, w: written(x, (ALL, SOME), (x * w)[:, :2]),
    "x[m, :, i] = y": lambda x, w: written(x, (SOME, ALL, PLACES), (x * w)[:2, 1]),
    "x[:, m, own] = y": lambda x, w: written(x, (ALL, SOME, (x[0, 0, :2] * C).long() % C), (x * w)[:, :2, 0]),
    "x[m, m] *= y": lambda x, w: written(x, (SOME, SOME), (x * w)[SOME, SOME] * x[0, 1]),
    "x[own mask] = number": lambda x, w: written(x * w, x > 0.5, 0.25),
    "x[own mask] = row": lambda x, w: written(x, x[:, :, 0] > 0.5, w),
    "x[:, own mask] = rows": lambda x, w: written(x, (ALL, x[0, :, 0] > 0.5), (x * w)[:, :1]),
}

CAUSAL = torch.triu(torch.ones(C, C, dtype=torch.bool), 1)
OPTIONS = {
    "": {},
    "without weights": {"need_weights": False},
    "a weight per head": {"average_attn_weights": False},
    "no bias": {"bias": False},
    "causal": {"is_causal": True, "attn_mask": CAUSAL, "need_weights": False},
    "a mask of floats": {"attn_mask": lambda x: x[:, 0, :]},
    "a mask per head": {"attn_mask": torch.arange(2. * N * C * C).view(2 * N, C, C) % 3},
    "padding": {"key_padding_mask": torch.tensor([[False, False, False, i == 1] for i in range(N)])},
    "padding of one's own": {"key_padding_mask": lambda x: torch.cat([x[:1, :, 0] < 0, x[1:, :, 0] > 0.5]).t()},
    "padding, and causal": {"attn_mask": CAUSAL, "key_padding_mask": lambda x: torch.cat([x[:1, :, 0] < 0, x[1:, :, 0] > 0.5]).t()},
    "padding of floats": {"key_padding_mask": lambda x: x[:, :, 1].t(), "attn_mask": lambda x: x[:, 0, :], "need_weights": False},
    "a key and a value more": {"extra": True},
    "zeros more": {"add_zero_attn": True, "attn_mask": CAUSAL},
    "all more": {"extra": True, "add_zero_attn": True, "separate": True, "attn_mask": lambda x: x[:, 0, :], "average_attn_weights": False,
                 "key_padding_mask": lambda x: torch.cat([x[:1, :, 0] < 0, x[1:, :, 0] > 0.5]).t()},
    "weights apart": {"separate": True},
    "static keys and values": {"static": True},
    "no batch": {"unbatched": True},
    "no batch, extra, causal": {"unbatched": True, "extra": True, "attn_mask": CAUSAL},
}

FUNCTIONS = {
    "repeat_interleave, a count per place": (lambda x, w: (x * w).repeat_interleave(COUNTS, 1), (N, C), (C,)),
    "repeat_interleave, the size told": (lambda x, w: (x * w).repeat_interleave(COUNTS, 0, output_size=4), (N, C), (C,)),
    "spatial transformer": (lambda x, w: F.grid_sample(x, F.affine_grid(w * x[:, 0, :2, :3], [N, C, 3, 5], align_corners=False), align_corners=False),
                            (N, C, C, C), (2, 3)),
    "affine_grid of volumes": (lambda x, w: F.affine_grid(w * x[:, :3], [N, C, 2, 3, 4], align_corners=True), (N, C, C), (3, 4)),
    "quantised weights": (lambda x, w: x @ torch.fake_quantize_per_channel_affine(w, w.detach().abs().amax(1) / 8, torch.zeros(4, dtype=torch.int32), 0, -8, 7),
                          (N, C), (4, C)),
    "quantised activations": (lambda x, w: torch.fake_quantize_per_tensor_affine(x * w, 0.05, 3, 0, 255), (N, C), (C,)),
    **{f"embedding_bag {mode}{', shared indices' * (not own)}{', rows' * (not offsets)}{''.join(f', {n}' for n in more)}":
       bags(mode, offsets, own, **more)
       for mode in ("sum", "mean", "max") for own in (True, False) for offsets in (True, False)
       for more in ({}, {"padding_idx": 1}, {"padding_idx": -1, "include_last_offset": offsets}, {"weighted": mode == "sum", "padding_idx": 3})},
    "as_strided of rows in a row": (lambda x, w: windows(x * w).sin(), (N, C), (C,)),
    "as_strided, computed strides": (lambda x, w: (lambda y: y.as_strided([y.size(0), 3, 2], [y.stride(0), 1, 1]))((x * w).t().contiguous()), (N, C), (C,)),
    "as_strided behind an offset": (lambda x, w: (x * w).repeat(1, 2).as_strided((2, 3, 3), (8, 8, 1), 5).tanh(), (N, C), (C,)),
    "tensor_split at places in a tensor": (lambda x, w: torch.cat(torch.tensor_split(x * w, torch.tensor([1, 3]), 1)[::2], 1), (N, C), (C,)),
    "tensor_split into a number in a tensor": (lambda x, w: torch.tensor_split(x * w, torch.tensor(3), 0)[1] * w, (N, C), (C,)),
    "narrow from a number in a tensor": (lambda x, w: (x * w).narrow(1, torch.tensor(1), 2), (N, C), (C,)),
    "pad_sequence": (lambda x, w: nn.utils.rnn.pad_sequence([(x * w)[:2], x[:3], x * w], True, 0.5), (N, C), (C,)),
    "stft, a window of one's own": (lambda x, w: torch.stft(x * 2, 4, 2, 4, w, return_complex=True).abs(), (N, 4 * C), (4,)),
    "istft, a window of one's own": (lambda x, w: torch.istft(torch.fft.rfft(x), 4, 1, 4, w + 1, center=False, length=7), (N, N, C), (4,)),
    "cov, weights of one's own": (lambda x, w: torch.cov(x, aweights=w.abs() + 0.1), (N, C), (C,)),
    "gradient at places of one's own": (lambda x, w: torch.gradient(x * 2, spacing=(w.abs().cumsum(0) + torch.arange(C),), dim=1)[0], (N, C), (C,)),
    **{name: (function, (N, C, C), (C,)) for name, function in MASKED.items()},
    **{f"multi_head_attention_forward {name}": multi_head(**options) for name, options in OPTIONS.items()},
}


def check(models, xs, stacked, training=True):
    k = len(models)
    traced = [torch.jit.trace(m, xs[0] if stacked else xs, check_trace=False) for m in models]
    fused = chorus.fuse(traced).train(training)
    code = "".join(getattr(fused, n).code for n in fused._c._method_names() if n.startswith("chorus_forward_"))
    x = xs.clone().requires_grad_(training)
    own = [(xs[i] if stacked else xs).clone().requires_grad_(training) for i in range(k)]
    y, want = fused(x), torch.stack([m(o) for m, o in zip(models, own)])
    assert_close({"y": y.detach()}, {"y": want.detach()}, 1e-5)
    if training:
        weight = torch.randn_like(want)
        (y * weight).sum().backward()
        (want * weight).sum().backward()
        gradients = [o.grad for o in own]
        assert_close({"x": x.grad}, {"x": torch.stack(gradients) if stacked else sum(gradients)}, 1e-5)
        stack = {n: torch.stack([dict(m.named_parameters())[n].grad for m in models]) for n, _ in models[0].named_parameters()}
        assert_close({n: p.grad for n, p in fused.named_parameters()}, stack, 1e-5)
    return code


@pytest.mark.parametrize("stacked", [True, False], ids=["stacked", "shared"])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_is_batched(name, k, stacked):
    function, rows, shape = FUNCTIONS[name]
    build = type("Made", (Net,), {"function": staticmethod(function), "shape": shape})
    torch.manual_seed(7)
    xs = torch.rand(k, *rows) if stacked else torch.rand(*rows)
    code = check([seeded(build, i) for i in range(k)], xs, stacked)
    assert "for " not in code and "while " not in code, "a loop over members"


TABLES = {"embedding": lambda w, i: F.embedding(i, w), "embedding_bag": lambda w, i: F.embedding_bag(i, w, torch.tensor([0, 2])), "take": torch.take}


@pytest.mark.parametrize("name,place", [("embedding", C), ("embedding", -1), ("embedding_bag", C), ("embedding_bag", -1), ("take", C * C), ("take", -C * C - 1)])
def test_a_place_that_a_member_has_not_is_no_other_member_s(name, place):
    class Reads(nn.Module):
        def forward(self, w, places):
            return TABLES[name](w, places)

    w, places = torch.randn(3, C, C), torch.tensor([[0, 1, 3, 0], [0, 2, 1, 0], [1, 0, 1, 3]])
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.trace(Reads(), (w[0], places[0])), buffer)
    function = chorus._core.Function(buffer.getvalue())
    function.run([True, True], [w, places])
    places[1, 2] = place
    with pytest.raises(Exception, match="out of range|out of bounds|Expected idx|valid range"):
        function.run([True, True], [w, places])


@pytest.mark.parametrize("table", [nn.Embedding, nn.EmbeddingBag])
def test_data_outside_of_a_table_are_refused_with_their_row(tmp_path, table):
    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = table(5, C)

        def forward(self, rows):
            return self.table(rows).view(rows.size(0), -1)[:, :C]

    rows = torch.randint(0, 5, (6, 3))
    models = [export(seeded(Reads, i), tmp_path / f"m{i}.pt", rows) for i in range(2)]
    tool("fuse", *models, "-o", tmp_path / "fused.pt", "--loss", "cross_entropy", "--optimizer", "sgd")
    rows[4, 1] = 5
    np.savez(tmp_path / "d.npz", x=rows.numpy(), y=np.zeros(6, int))
    done = tool("run", tmp_path / "fused.pt", "--data", tmp_path / "d.npz", "-o", tmp_path / "trained.pt", ok=False)
    assert done.returncode == 1 and "array 'x' has the value 5 in row 4, but the row numbers of its table lie in 0..4" in done.stderr


OWN = {
    "the sum of what is chosen": lambda x, w: (x * w)[x > w].sin().sum(),
    "the mean of rows": lambda x, w: (x * w)[x[:, 0, 0] > w].sum(0) * w,
    "masked_select": lambda x, w: torch.masked_select(x * w, x > w).cos().sum(),
    "x[m] = y[m]": lambda x, w: written(x, x > w, (x * w)[x > w].exp()),
    "x[m] = values": lambda x, w: written(x, ((x[:, 0, 0] * w).argsort() < 2, PLACES), (x * w)[:2, 0]),
}


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("name", OWN)
def test_a_mask_of_one_s_own_is_right_and_visible(name, k):
    build = type("Made", (Net,), {"function": staticmethod(OWN[name]), "shape": (C,)})
    torch.manual_seed(7)
    xs = torch.rand(k, N, C, C)
    check([seeded(build, i) for i in range(k)], xs, True)
    fused = chorus.fuse([torch.jit.trace(seeded(build, i), xs[0], check_trace=False) for i in range(k)])
    assert [n for n in fused.chorus_report["nodes"] if n["kind"] == "per member"]


def test_as_strided_of_what_may_lie_otherwise_is_refused():
    build = type("Made", (Net,), {"function": staticmethod(lambda x, w: (x * w).as_strided((2, 2), (1, 2))), "shape": (C,)})
    with pytest.raises(chorus.Error, match="depends on how the tensor lies in memory"):
        chorus.fuse([torch.jit.trace(seeded(build, i), torch.rand(N, C)) for i in range(2)])


@pytest.mark.parametrize("mode", ["sum", "max"])
def test_indices_behind_the_last_bag_are_in_no_other_member_s(mode):
    """Without the gradient: PyTorch's own reads behind its end. Its mean counts them without adding them: that is no judge."""
    class Bag(nn.Module):
        def forward(self, w, rows):
            return F.embedding_bag(rows, w, torch.tensor([0, 2, 3]), mode=mode, include_last_offset=True)

    w, rows = torch.randn(3, C, C), torch.tensor([[0, 1, 2, 3], [3, 2, 1, 0], [1, 1, 3, 2]])
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.trace(Bag(), (w[0], rows[0])), buffer)
    outputs, _ = chorus._core.Function(buffer.getvalue()).run([True, True], [w, rows])
    assert_close({"y": outputs[0]}, {"y": torch.stack([Bag()(*m) for m in zip(w, rows)])}, 1e-6)


@pytest.mark.parametrize("stacked", [True, False], ids=["stacked", "shared"])
@pytest.mark.parametrize("k", [1, 3])
def test_encoder_in_eval_mode(k, stacked):
    torch.manual_seed(7)
    xs = torch.randn(k, N, C, C) if stacked else torch.randn(N, C, C)
    with torch.no_grad():
        check([seeded(FastPath, i).eval() for i in range(k)], xs, stacked, training=False)
