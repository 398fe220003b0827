"""Networks that people write for sequences and sets; each traced and scripted."""
import math
from typing import List

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .case import N, rows, tokens
from .kinds import both

L, C = 5, 4


class WaveNet(nn.Module):
    """Dilated causal convolutions with gates, residuals and skips."""

    def __init__(self):
        super().__init__()
        self.begin = nn.Conv1d(C, C, 1)
        self.gates = nn.ModuleList([nn.Conv1d(C, 2 * C, 2, dilation=2**i) for i in range(3)])
        self.outs = nn.ModuleList([nn.Conv1d(C, 2 * C, 1) for _ in range(3)])
        self.end = nn.Conv1d(C, 3, 1)

    def forward(self, x):
        x = self.begin(x)
        skip, reach = torch.zeros_like(x), 1
        for gate, out in zip(self.gates, self.outs):
            a, b = gate(F.pad(x, [reach, 0])).chunk(2, 1)
            residual, more = out(torch.tanh(a) * torch.sigmoid(b)).split(x.size(1), 1)
            x, skip, reach = x + residual, skip + more, 2 * reach
        return self.end(F.relu(skip))


class Pooled(nn.Module):
    """Attention pooling over the places that a mask leaves."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, C, padding_idx=0)
        self.score, self.end = nn.Sequential(nn.Linear(C, C), nn.Tanh(), nn.Linear(C, 1)), nn.Linear(C, 3)

    def forward(self, ids):
        x = self.embed(ids)
        scores = self.score(x).squeeze(-1).masked_fill(ids == 0, -1e9)
        return self.end(torch.einsum("nl,nlc->nc", scores.softmax(-1), x))


class Memory(nn.Module):
    """An end-to-end memory network of two hops, whose tables are shared by neighbours and the answer."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Embedding(7, C), nn.Embedding(7, C), nn.Embedding(7, C)

    def hop(self, u: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        p = torch.bmm(keys, u.unsqueeze(2)).squeeze(2).softmax(1)
        return u + torch.bmm(p.unsqueeze(1), values).squeeze(1)

    def forward(self, story, question):
        u = self.a(question).sum(1)
        u = self.hop(u, self.a(story), self.b(story))
        return self.hop(u, self.b(story), self.c(story)) @ self.c.weight.t()


class Rotary(nn.Module):
    """Causal attention with rotated queries and keys, and a bias that falls with the distance."""

    def __init__(self, alibi: bool = False):
        super().__init__()
        self.qkv, self.out, self.alibi = nn.Linear(8, 24, bias=False), nn.Linear(8, 8, bias=False), alibi
        self.register_buffer("frequency", 1 / 10 ** (torch.arange(0, 4, 2) / 4), persistent=False)

    def turn(self, x: Tensor) -> Tensor:
        angle = torch.outer(torch.arange(x.size(2), device=x.device).to(x.dtype), self.frequency.to(x.dtype))
        angle = torch.cat([angle, angle], -1)
        a, b = x.chunk(2, -1)
        return x * angle.cos() + torch.cat([-b, a], -1) * angle.sin()

    def forward(self, x):
        n, length, _ = x.shape
        q, k, v = self.qkv(x).view(n, length, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        scores = self.turn(q) @ self.turn(k).transpose(-2, -1) / math.sqrt(4.0)
        if self.alibi:
            place = torch.arange(length, device=x.device)
            scores = scores - 0.1 * (place[:, None] - place[None, :]).abs().to(x.dtype)
        scores = scores.masked_fill(~mask, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, length, 8))


class LinearAttention(nn.Module):
    """Causal linear attention by cumulative sums; spatial gates; mixing by Fourier transforms."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(C, 3 * C)
        self.norm, self.gate = nn.LayerNorm(C), nn.Linear(L, L)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        sums = torch.einsum("nlc,nld->nlcd", k, v).cumsum(1)
        y = torch.einsum("nlc,nlcd->nld", q, sums) / ((q * k.cumsum(1)).sum(-1, keepdim=True) + 1e-6)
        y = y * self.gate(self.norm(y).transpose(1, 2)).transpose(1, 2)
        return y + torch.fft.fft2(x, dim=(-2, -1)).real


class Relative(nn.Module):
    """Relative positions by shifting [L, 2L-1] scores, as Transformer-XL and T5 do."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(C, C), nn.Linear(C, C), nn.Linear(C, C)
        self.far = nn.Parameter(torch.randn(2 * L - 1, C))
        self.bias = nn.Embedding(4, 1)

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        n, length = x.size(0), x.size(1)
        r = F.pad(q @ self.far.t(), [0, 1]).view(n, -1)[:, length:].view(n, length, 2 * length - 1)[:, :, :length]
        place = torch.arange(length, device=x.device)
        bucket = (place[:, None] - place[None, :]).abs().clamp(max=3)
        return (q @ k.transpose(1, 2) + r + self.bias(bucket).squeeze(-1)).softmax(-1) @ v


class Seq2Seq(nn.Module):
    """A GRU encoder, and a decoder cell with attention in a loop over the targets."""

    def __init__(self):
        super().__init__()
        self.encoder, self.embed = nn.GRU(C, C, batch_first=True, bidirectional=True), nn.Embedding(7, C)
        self.cell, self.attend, self.end = nn.GRUCell(3 * C, 2 * C), nn.Linear(2 * C, 2 * C), nn.Linear(2 * C, 7)

    def forward(self, x, targets):
        states, last = self.encoder(x)
        h = last.transpose(0, 1).flatten(1)
        outputs: List[Tensor] = []
        for t in range(targets.size(1)):
            scores = torch.einsum("nlc,nc->nl", states, self.attend(h))
            context = torch.einsum("nl,nlc->nc", scores.softmax(1), states)
            h = self.cell(torch.cat([self.embed(targets[:, t]), context], 1), h)
            outputs.append(self.end(h))
        return torch.stack(outputs, 1)


class ConvLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = nn.Conv2d(2 + 3, 12, 3, padding=1)

    def forward(self, x):
        h = x.new_zeros([x.size(0), 3, x.size(3), x.size(4)])
        c = torch.zeros_like(h)
        for t in range(x.size(1)):
            i, f, o, g = self.gates(torch.cat([x[:, t], h], 1)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h.mean((2, 3))


class Crf(nn.Module):
    """Scores of the best labels: forward algorithm and Viterbi over learned transitions; returns the loss too."""

    def __init__(self):
        super().__init__()
        self.score, self.moves, self.start = nn.Linear(C, 3), nn.Parameter(torch.randn(3, 3)), nn.Parameter(torch.randn(3))

    def forward(self, x, labels):
        e = self.score(x)
        alpha, best = self.start + e[:, 0], self.start + e[:, 0]
        gold = self.start[labels[:, 0]] + e[:, 0].gather(1, labels[:, :1]).squeeze(1)
        for t in range(1, x.size(1)):
            alpha = torch.logsumexp(alpha.unsqueeze(2) + self.moves, 1) + e[:, t]
            best = (best.unsqueeze(2) + self.moves).max(1)[0] + e[:, t]
            gold = gold + self.moves[labels[:, t - 1], labels[:, t]] + e[:, t].gather(1, labels[:, t : t + 1]).squeeze(1)
        return torch.logsumexp(alpha, 1) - gold, best.amax(1)


class Kalman(nn.Module):
    """A linear filter with learned noise: solves, outer products, a loop."""

    def __init__(self):
        super().__init__()
        self.a, self.h = nn.Parameter(torch.eye(3) + 0.1 * torch.randn(3, 3)), nn.Parameter(torch.randn(2, 3))
        self.q, self.r = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(2))

    def forward(self, y):
        m = y.new_zeros([y.size(0), 3])
        p = torch.eye(3, dtype=y.dtype, device=y.device).expand(y.size(0), 3, 3)
        for t in range(y.size(1)):
            m, p = m @ self.a.t(), self.a @ p @ self.a.t() + torch.diag(self.q.exp())
            s = self.h @ p @ self.h.t() + torch.diag_embed(self.r.exp())
            gain = torch.linalg.solve(s, self.h @ p).transpose(1, 2)
            m = m + (gain @ (y[:, t] - m @ self.h.t()).unsqueeze(2)).squeeze(2)
            p = p - gain @ self.h @ p
        return m


class Missing(nn.Module):
    """GRU-D: values that are missing fade to a learned mean; two masks as inputs."""

    def __init__(self):
        super().__init__()
        self.cell, self.fade, self.mean = nn.GRUCell(2 * C, C), nn.Linear(C, C), nn.Parameter(torch.randn(C))

    def forward(self, x, seen, gap):
        h = torch.zeros_like(x[:, 0])
        last = self.mean.expand(x.size(0), -1)
        for t in range(x.size(1)):
            decay = torch.exp(-F.relu(self.fade(gap[:, t])))
            last = torch.where(seen[:, t], x[:, t], last)
            value = torch.where(seen[:, t], x[:, t], decay * last + (1 - decay) * self.mean)
            h = self.cell(torch.cat([value, seen[:, t].to(x.dtype)], 1), h)
        return h


class NBeats(nn.Module):
    """Blocks of a forecast and a backcast, by fixed and learned bases."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(L, 8), nn.ReLU(), nn.Linear(8, 5)) for _ in range(3)])
        t = torch.linspace(0, 1, L)
        self.register_buffer("past", torch.stack([torch.ones(L), t, t**2]))
        self.ahead = nn.Parameter(torch.randn(2, 3))

    def forward(self, x):
        forecast = torch.zeros(x.size(0), 3, dtype=x.dtype, device=x.device)
        for block in self.blocks:
            theta = block(x)
            x = x - theta[:, :3] @ self.past
            forecast = forecast + theta[:, 3:] @ self.ahead
        return forecast, x


class DeepSets(nn.Module):
    """Sums, means and maxima over a set; induced points that attend to it."""

    def __init__(self):
        super().__init__()
        self.phi, self.rho, self.points = nn.Linear(C, C), nn.Linear(3 * C, 3), nn.Parameter(torch.randn(1, 2, C))
        self.attend = nn.MultiheadAttention(C, 2, batch_first=True)

    def forward(self, x):
        y = F.relu(self.phi(x))
        z, _ = self.attend(self.points.expand(x.size(0), -1, -1), y, y)
        values, _ = y.max(1)
        return self.rho(torch.cat([y.sum(1) / y.size(1), values, z.mean(1)], -1))


def pair():
    return torch.randint(0, 7, (N, L)), torch.randint(0, 7, (N, 3))


NETS = {
    **both("wavenet", WaveNet, rows(C, 9)),
    **both("attention pooling", Pooled, tokens(L, 7)),
    **both("memory network", Memory, pair),
    **both("rotary", Rotary, rows(L, 8)),
    **both("alibi", lambda: Rotary(True), rows(L, 8)),
    **both("linear attention, gates, fourier", LinearAttention, rows(L, C)),
    **both("relative positions", Relative, rows(L, C)),
    **both("seq2seq with attention", Seq2Seq, lambda: (torch.randn(N, L, C, dtype=torch.float64), torch.randint(0, 7, (N, 3)))),
    **both("conv lstm", ConvLSTM, rows(3, 2, 5, 5)),
    **both("crf", Crf, lambda: (torch.randn(N, L, C, dtype=torch.float64), torch.randint(0, 3, (N, L))), quick=True),
    **both("kalman filter", Kalman, rows(3, 2)),
    **both("gru with missing values", Missing, lambda: (torch.randn(N, L, C, dtype=torch.float64), torch.rand(N, L, C) < 0.6,
                                                        torch.rand(N, L, C, dtype=torch.float64))),
    **both("n-beats", NBeats, rows(L)),
    **both("deep sets", DeepSets, rows(L, C)),
}
