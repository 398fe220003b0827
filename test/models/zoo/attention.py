"""scaled_dot_product_attention in all its forms, nn.MultiheadAttention, nn.Transformer layers."""
import torch
import torch.nn.functional as F
from torch import nn

from .case import Calls, N, Net, rows, without_dropout

L, E, H = 2, 4, 2  # length, embedding, heads: N = K = L = H = 2


def projections(width=E, inner=E):
    return {"q": nn.Linear(width, inner), "k": nn.Linear(width, inner), "v": nn.Linear(width, inner)}


def heads(x, count=H):
    return x.view(x.size(0), x.size(1), count, -1).transpose(1, 2)


def attend(**options):
    """[N,L,E] -> heads -> attention -> [N,L,E]"""
    def build():
        def forward(net, x):
            given = {name: value(net, x) if callable(value) else value for name, value in options.items()}
            y = F.scaled_dot_product_attention(heads(net.q(x)), heads(net.k(x)), heads(net.v(x)), **given)
            return y.transpose(1, 2).flatten(2)
        return Calls(forward, {"bias": 0.3 * torch.randn(L, L), "deep": 0.3 * torch.randn(N, H, L, L),
                               "perhead": torch.randn(H, 1, L)},
                     {"keep": torch.tensor([[True, False], [True, True]]), "soft": torch.tensor([[0.0, -1.0], [0.5, 0.0]])},
                     **projections())
    return Net(build, rows(L, E))


def flat(rank, mask=None):
    """Attention on tensors of rank 2, 3 or 5."""
    def build():
        def forward(net, x):
            q, k, v = net.q(x), net.k(x), net.v(x)
            if rank == 5:
                q, k, v = (t.view(N, 1, H, L, -1) for t in (q, k, v))
            if rank == 2:
                q, k, v = q[0], k[0], v[0]
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask(net) if mask else None, is_causal=mask is None)
            return y + x.sum()
        return Calls(forward, {"bias": torch.randn(L, L)}, **projections())
    return Net(build, rows(L, E))


def grouped_query():
    def forward(net, x):
        return F.scaled_dot_product_attention(heads(net.q(x), 4), heads(net.k(x), 2), heads(net.v(x), 2), is_causal=True,
                                              enable_gqa=True).transpose(1, 2).flatten(2)
    return Calls(forward, q=nn.Linear(8, 8), k=nn.Linear(8, 4), v=nn.Linear(8, 4))


def cross():
    """Queries and keys of other lengths; a learned query shared by all rows."""
    def forward(net, x):
        q = heads(net.query.expand(x.size(0), -1, -1))
        return F.scaled_dot_product_attention(q, heads(net.k(x)), heads(net.v(x)), scale=0.7).transpose(1, 2).flatten(2)
    return Calls(forward, {"query": torch.randn(1, 3, E)}, k=nn.Linear(E, E), v=nn.Linear(E, E))


def shared_values():
    """Keys and values are the input itself, shared by the members."""
    def forward(net, x):
        return F.scaled_dot_product_attention(net.q(x), x, x)
    return Calls(forward, q=nn.Linear(E, E))


def padding(x):
    return x[..., 0] > 0.8


def mha(call=None, **options):
    def build():
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.MultiheadAttention(E, H, **options)
                self.register_buffer("causal", torch.triu(torch.ones(L, L, dtype=torch.bool), 1))
                self.mask = nn.Parameter(0.3 * torch.randn(L, L))

            def forward(self, x):
                return (call or (lambda net, x: net.inner(x, x, x)))(self, x)
        return Attention()
    return Net(build, rows(L, E))


class ScriptedAttention(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.inner = nn.MultiheadAttention(E, H, batch_first=True, **options)

    def forward(self, x):
        return self.inner(x, x, x, key_padding_mask=x[..., 0] > 0.8)


class Masked(nn.Module):
    """A transformer encoder with a padding mask; scripted and traced."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x, src_key_padding_mask=x[..., 0] > 1.5)


class Decoding(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x, memory):
        return self.inner(x, memory)


def layer(kind=nn.TransformerEncoderLayer, **options):
    return without_dropout(kind(E, H, 8, 0.0, **options))


def encoder(layers=2, nested=True, norm=False, **options):
    return nn.TransformerEncoder(layer(**options), layers, norm=nn.LayerNorm(E) if norm else None, enable_nested_tensor=nested)


def two():
    return torch.randn(N, L, E), torch.randn(N, 3, E)


NETS = {
    "sdpa": attend(),
    "sdpa causal": attend(is_causal=True),
    "sdpa scale": attend(scale=0.3),
    "sdpa dropout 0": attend(dropout_p=0.0),
    "sdpa bool buffer": attend(attn_mask=lambda net, x: net.keep),
    "sdpa float buffer": attend(attn_mask=lambda net, x: net.soft),
    "sdpa learned bias": attend(attn_mask=lambda net, x: net.bias),
    "sdpa learned bias [N,H,L,L]": attend(attn_mask=lambda net, x: net.deep),
    "sdpa learned bias [H,1,L]": attend(attn_mask=lambda net, x: net.perhead),
    "sdpa bool mask [N,1,1,L] of the input": attend(attn_mask=lambda net, x: (x[..., 0] > -1.5)[:, None, None, :]),
    "sdpa bool mask of the members": attend(attn_mask=lambda net, x: net.bias > -2.5),
    "sdpa bool mask [N,1,L,L] of the members": attend(
        attn_mask=lambda net, x: ((net.q(x)[..., :1] - net.k(x)[..., :1].transpose(1, 2)) > -9)[:, None]),
    "sdpa rank 3": flat(3),
    "sdpa rank 2": flat(2),
    "sdpa rank 5": flat(5),
    "sdpa rank 3 mask": flat(3, lambda net: net.bias),
    "sdpa rank 2 mask": flat(2, lambda net: net.bias),
    "sdpa rank 5 mask": flat(5, lambda net: net.bias),
    "sdpa grouped queries": Net(grouped_query, rows(L, 8)),
    "sdpa cross": Net(cross, rows(L, E)),
    "sdpa shared values": Net(shared_values, rows(L, E)),
    "mha": mha(batch_first=True),
    "mha [L,N,E]": mha(),
    "mha no bias": mha(bias=False),
    "mha no weights": mha(lambda net, x: net.inner(x, x, x, need_weights=False)[0], batch_first=True),
    "mha weights per head": mha(lambda net, x: net.inner(x, x, x, average_attn_weights=False), batch_first=True),
    "mha padding": mha(lambda net, x: net.inner(x, x, x, key_padding_mask=padding(x)), batch_first=True),
    "mha padding, no weights": mha(lambda net, x: net.inner(x, x, x, key_padding_mask=padding(x), need_weights=False)[0],
                                   batch_first=True),
    "mha causal": mha(lambda net, x: net.inner(x, x, x, attn_mask=net.causal, is_causal=True, need_weights=False)[0]),
    "mha bool mask": mha(lambda net, x: net.inner(x, x, x, attn_mask=net.causal), batch_first=True),
    "mha learned mask": mha(lambda net, x: net.inner(x, x, x, attn_mask=net.mask), batch_first=True),
    "mha bias_kv, zero_attn": mha(add_bias_kv=True, add_zero_attn=True, batch_first=True),
    "mha kdim vdim": mha(lambda net, x: net.inner(x, torch.cat([x, x], -1), x[..., :3]), kdim=2 * E, vdim=3, batch_first=True),
    "mha unbatched": mha(lambda net, x: net.inner(x[0], x[0], x[0])[0] + x.mean()),
    "mha cross": Net(lambda: Calls(lambda net, x, y: net.inner(x, y, y)[0], inner=nn.MultiheadAttention(E, H, batch_first=True)),
                     two),
    "mha scripted": Net(ScriptedAttention, rows(L, E), "script"),
    "mha scripted bias_kv": Net(lambda: ScriptedAttention(add_bias_kv=True), rows(L, E), "script"),
}
for kind in ("trace", "script"):
    NETS |= {
        f"encoder layer, {kind}": Net(lambda: layer(batch_first=True), rows(L, E), kind),
        f"encoder layer pre-norm gelu, {kind}": Net(lambda: layer(batch_first=True, norm_first=True, activation="gelu"),
                                                    rows(L, E), kind),
        f"encoder, {kind}": Net(lambda: encoder(batch_first=True), rows(L, E), kind, quick=kind == "script"),
        f"encoder, no nested, norm, {kind}": Net(lambda: encoder(nested=False, norm=True, batch_first=True), rows(L, E), kind),
        f"encoder with padding, {kind}": Net(lambda: Masked(encoder(nested=False, batch_first=True)), rows(L, E), kind),
        f"encoder with padding, nested, {kind}": Net(lambda: Masked(encoder(batch_first=True)), rows(L, E), kind),
        f"decoder layer, {kind}": Net(lambda: Decoding(layer(nn.TransformerDecoderLayer, batch_first=True)), two, kind),
        f"decoder, {kind}": Net(
            lambda: Decoding(nn.TransformerDecoder(layer(nn.TransformerDecoderLayer, batch_first=True, norm_first=True), 2)),
            two, kind),
        f"transformer, {kind}": Net(lambda: Decoding(without_dropout(nn.Transformer(E, H, 1, 1, 8, 0.0, batch_first=True))), two,
                                    kind),
    }
NETS["encoder layer [L,N,E], no bias, trace"] = Net(lambda: layer(bias=False), rows(L, E))  # PyTorch cannot script it
NETS |= {
    f"{name}, traced in eval mode": Net(build, rows(L, E), modes=("eval",))
    for name, build in {
        "encoder layer": lambda: layer(batch_first=True),
        "encoder layer pre-norm gelu": lambda: layer(batch_first=True, norm_first=True, activation="gelu"),
        "encoder": lambda: encoder(batch_first=True),
        "encoder with padding": lambda: Masked(encoder(nested=False, batch_first=True)),
        "encoder with padding, nested": lambda: Masked(encoder(batch_first=True)),
        "mha": lambda: nn_mha(),
    }.items()
}


def nn_mha():
    return Calls(lambda net, x: net.inner(x, x, x), inner=nn.MultiheadAttention(E, H, batch_first=True))
