"""Networks that people write for images, graphs, tables and densities; each traced and scripted."""
import math
from typing import Dict, List

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .case import N, Net, rows
from .kinds import both

C = 4


class Siamese(nn.Module):
    """One trunk for two images; their distance and a contrast of all pairs of rows."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Conv2d(1, C, 3), nn.BatchNorm2d(C), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                   nn.Linear(C, C))
        self.scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, a, b):
        a, b = self.trunk(a), self.trunk(b)
        similar = F.normalize(a, dim=1) @ F.normalize(b, dim=1).t() * self.scale.exp()
        return F.pairwise_distance(a, b), F.cross_entropy(similar, torch.arange(a.size(0), device=a.device))


class Hypernet(nn.Module):
    """One network makes the weights of another, for each row."""

    def __init__(self):
        super().__init__()
        self.maker, self.end = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, C * C + C)), nn.Linear(C, 2)

    def forward(self, x, task):
        made = self.maker(task)
        c = x.size(1)
        w, b = made[:, : c * c].view(-1, c, c), made[:, c * c :]
        y = torch.baddbmm(b.unsqueeze(2), w, x.unsqueeze(2)).squeeze(2)
        return self.end(torch.tanh(y))


class Capsules(nn.Module):
    """Routing by agreement, three rounds."""

    def __init__(self):
        super().__init__()
        self.conv, self.w = nn.Conv2d(1, 8, 3, stride=2), nn.Parameter(0.3 * torch.randn(1, 18, 3, 5, C))

    def squash(self, x: Tensor) -> Tensor:
        square = (x**2).sum(-1, keepdim=True)
        return square / (1 + square) * x / (square + 1e-8).sqrt()

    def forward(self, x):
        u = self.squash(self.conv(x).view(x.size(0), 2, 4, -1).permute(0, 1, 3, 2).reshape(x.size(0), -1, 4))
        votes = (self.w @ u[:, :, None, :, None]).squeeze(-1)
        logits = torch.zeros(x.size(0), 18, 3, 1, dtype=x.dtype, device=x.device)
        v = votes.sum(1)
        for _ in range(3):
            v = self.squash((logits.softmax(2) * votes).sum(1))
            logits = logits + (votes * v.unsqueeze(1)).sum(-1, keepdim=True)
        return (v**2).sum(-1).sqrt()


class Ode(nn.Module):
    """Runge and Kutta's steps of a learned field, and its divergence-free energy."""

    def __init__(self, steps: int = 4):
        super().__init__()
        self.field, self.steps = nn.Sequential(nn.Linear(C + 1, 8), nn.Tanh(), nn.Linear(8, C)), steps

    def slope(self, t: float, y: Tensor) -> Tensor:
        return self.field(torch.cat([y, torch.full_like(y[:, :1], t)], 1))

    def forward(self, y):
        h = 1.0 / self.steps
        for i in range(self.steps):
            t = i * h
            a = self.slope(t, y)
            b = self.slope(t + h / 2, y + h / 2 * a)
            c = self.slope(t + h / 2, y + h / 2 * b)
            d = self.slope(t + h, y + h * c)
            y = y + h / 6 * (a + 2 * b + 2 * c + d)
        return y


class PointNet(nn.Module):
    """A network that turns the points, shared layers, a maximum over the points."""

    def __init__(self):
        super().__init__()
        self.turn = nn.Sequential(nn.Conv1d(3, 6, 1), nn.BatchNorm1d(6), nn.ReLU())
        self.matrix, self.features, self.end = nn.Linear(6, 9), nn.Sequential(nn.Conv1d(3, 6, 1), nn.BatchNorm1d(6)), nn.Linear(12, 3)
        nn.init.zeros_(self.matrix.weight)

    def forward(self, x):
        eye = torch.eye(3, dtype=x.dtype, device=x.device).view(1, 9).repeat(x.size(0), 1)
        t = (self.matrix(self.turn(x).max(2)[0]) + eye).view(-1, 3, 3)
        y = self.features(torch.bmm(x.transpose(2, 1), t).transpose(2, 1))
        best = torch.max(y, 2, keepdim=True)[0]
        pooled = torch.cat([y, best.repeat(1, 1, x.size(2))], 1)
        orthogonal = (torch.bmm(t, t.transpose(1, 2)) - eye.view(-1, 3, 3)).square().sum((1, 2)).sqrt().mean()
        return self.end(pooled.transpose(1, 2)).log_softmax(-1), orthogonal


class EdgeConv(nn.Module):
    """Nearest neighbours in feature space, gathered; the maximum over them."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 5), nn.Linear(10, 3)

    def edges(self, x: Tensor, k: int) -> Tensor:
        near = (-torch.cdist(x, x)).topk(k, dim=-1)[1]
        n, p, c = x.shape
        rows_of = torch.arange(n, device=x.device).view(-1, 1, 1) * p
        picked = x.reshape(n * p, c)[(near + rows_of).view(-1)].view(n, p, k, c)
        middle = x.unsqueeze(2).expand(-1, -1, k, -1)
        return torch.cat([picked - middle, middle], -1)

    def forward(self, x):
        x = F.leaky_relu(self.a(self.edges(x, 2)), 0.2).amax(2)
        return self.b(self.edges(x, 3)).max(2)[0]


class GraphAttention(nn.Module):
    """Softmax over incoming edges by scatter: amax, then sums; degrees; a pooled top node."""

    def __init__(self):
        super().__init__()
        self.w, self.a, self.b = nn.Linear(C, C, bias=False), nn.Parameter(torch.randn(C)), nn.Parameter(torch.randn(C))
        self.p = nn.Parameter(torch.randn(C))
        self.register_buffer("edges", torch.tensor([[0, 1, 2, 3, 0, 2], [1, 2, 3, 0, 2, 2]]))

    def forward(self, x):
        h = self.w(x)
        s, t = self.edges[0], self.edges[1]
        e = F.leaky_relu((h * self.a).sum(-1)[:, s] + (h * self.b).sum(-1)[:, t])
        index = t.expand(x.size(0), -1)
        top = torch.full_like(x[..., 0], -1e9).scatter_reduce(1, index, e, "amax", include_self=True)
        e = (e - top.gather(1, index)).exp()
        total = torch.zeros_like(top).scatter_add(1, index, e)
        y = torch.zeros_like(h).index_add(1, t, h[:, s] * (e / total.gather(1, index)).unsqueeze(-1))
        score, kept = torch.tanh(y @ self.p / self.p.norm()).topk(2, dim=1)
        return y.gather(1, kept.unsqueeze(-1).expand(-1, -1, y.size(2))) * score.unsqueeze(-1)


class Experts(nn.Module):
    """Soft gates, and the two best of three: rows are sent to their experts by index."""

    def __init__(self, soft: bool):
        super().__init__()
        self.gate, self.soft = nn.Linear(C, 3), soft
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(C, 6), nn.GELU(), nn.Linear(6, C)) for _ in range(3)])

    def forward(self, x):
        p = self.gate(x).softmax(-1)
        if self.soft:
            y = torch.zeros_like(x)
            for i, expert in enumerate(self.experts):
                y = y + p[:, i : i + 1] * expert(x)
            return y
        best, chosen = p.topk(2, -1)
        best = best / best.sum(-1, keepdim=True)
        weight = torch.zeros_like(p).scatter(1, chosen, best)
        y = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            y = y + weight[:, i : i + 1] * expert(x)
        share = F.one_hot(chosen, 3).to(x.dtype).sum(1).mean(0)
        return y + 0.01 * (share * p.mean(0)).sum()


class Dispatched(nn.Module):
    """Experts that see their own rows alone: `where` decides shapes, so they run per member."""

    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(C, 2), nn.ModuleList([nn.Linear(C, C) for _ in range(2)])

    def forward(self, x):
        p, chosen = self.gate(x).softmax(-1).max(-1)
        y = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            mine = torch.where(chosen == i)[0]
            y = y.index_add(0, mine, expert(x[mine]) * p[mine].unsqueeze(1))
        return y


class Quantised(nn.Module):
    """VQ-VAE: the nearest code, straight through, and a codebook that follows by moving averages."""

    def __init__(self):
        super().__init__()
        self.enter, self.leave = nn.Linear(C, 3), nn.Linear(3, C)
        self.register_buffer("codes", torch.randn(5, 3))
        self.register_buffer("counts", torch.ones(5))
        self.register_buffer("sums", self.codes.clone())

    def forward(self, x):
        z = self.enter(x)
        nearest = torch.cdist(z, self.codes).argmin(-1)
        q = F.embedding(nearest, self.codes)
        if self.training:
            hot = F.one_hot(nearest, 5).to(z.dtype)
            self.counts.mul_(0.9).add_(hot.sum(0), alpha=0.1)
            self.sums.mul_(0.9).add_(hot.t() @ z.detach(), alpha=0.1)
            self.codes.copy_(self.sums / (self.counts + 1e-5).unsqueeze(1))
        commit = F.mse_loss(z, q.detach())
        return self.leave(z + (q - z).detach()), commit


class Flow(nn.Module):
    """Couplings, an invertible matrix with its log determinant, activation norm."""

    def __init__(self):
        super().__init__()
        self.net = nn.ModuleList([nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4)) for _ in range(2)])
        self.w = nn.ParameterList([nn.Parameter(torch.linalg.qr(torch.randn(C, C))[0]) for _ in range(2)])
        self.log_scale, self.shift = nn.Parameter(torch.zeros(C)), nn.Parameter(torch.zeros(C))

    def forward(self, x):
        x = (x + self.shift) * self.log_scale.exp()
        log_det = self.log_scale.sum().expand(x.size(0))
        for net, w in zip(self.net, self.w):
            x = x @ w
            a, b = x.chunk(2, 1)
            s, t = net(a).chunk(2, 1)
            s = torch.tanh(s)
            x = torch.cat([a, b * s.exp() + t], 1)
            log_det = log_det + s.sum(1) + torch.linalg.slogdet(w)[1]
        return x, -0.5 * (x**2).sum(1) - x.size(1) / 2 * math.log(2 * math.pi) + log_det


class Mixture(nn.Module):
    """A mixture density network: returns its own loss, a dict."""

    def __init__(self):
        super().__init__()
        self.trunk, self.pi, self.mu, self.sigma = nn.Linear(C, 8), nn.Linear(8, 3), nn.Linear(8, 3), nn.Linear(8, 3)

    def forward(self, x: Tensor, y: Tensor) -> Dict[str, Tensor]:
        h = torch.tanh(self.trunk(x))
        log_pi, mu, sigma = F.log_softmax(self.pi(h), -1), self.mu(h), F.softplus(self.sigma(h)) + 1e-3
        z = (y - mu) / sigma
        log_p = log_pi - 0.5 * z**2 - sigma.log()
        return {"loss": -torch.logsumexp(log_p, -1).mean(), "mean": (log_pi.exp() * mu).sum(-1)}


class Stn(nn.Module):
    """A spatial transformer, coordinates as channels, subpixel upsampling."""

    def __init__(self):
        super().__init__()
        self.where, self.conv = nn.Linear(36, 6), nn.Conv2d(3, 4, 3, padding=1)
        nn.init.normal_(self.where.weight, std=0.01)
        self.where.bias.data.copy_(torch.tensor([1.0, 0.1, 0.05, -0.1, 0.9, 0.02]))

    def forward(self, x):
        grid = F.affine_grid(self.where(x.flatten(1)).view(-1, 2, 3), x.size(), align_corners=False)
        x = F.grid_sample(x, grid, align_corners=False)
        ys = torch.linspace(-1, 1, x.size(2), dtype=x.dtype, device=x.device)
        gy, gx = torch.meshgrid([ys, ys], indexing="ij")
        place = torch.stack([gy, gx]).unsqueeze(0).expand(x.size(0), -1, -1, -1)
        y = F.pixel_shuffle(self.conv(torch.cat([x, place], 1)), 2)
        return F.interpolate(y, size=[9, 9], mode="bilinear", align_corners=True)


class Attended(nn.Module):
    """Squeeze and excite, spatial attention, non-local block, involution by unfold, FiLM."""

    def __init__(self):
        super().__init__()
        self.conv, self.down, self.up = nn.Conv2d(2, C, 3, padding=1), nn.Conv2d(C, 2, 1), nn.Conv2d(2, C, 1)
        self.spatial, self.kernel, self.film = nn.Conv2d(2, 1, 3, padding=1), nn.Conv2d(C, 9, 1), nn.Linear(3, 2 * C)

    def forward(self, x, task):
        x = F.silu(self.conv(x))
        x = x * torch.sigmoid(self.up(F.relu(self.down(x.mean((2, 3), keepdim=True)))))
        x = x * torch.sigmoid(self.spatial(torch.cat([x.amax(1, keepdim=True), x.mean(1, keepdim=True)], 1)))
        n, c, h, w = x.shape
        flat = x.flatten(2)
        x = x + (flat @ (flat.transpose(1, 2) @ flat).softmax(-1)).view(n, c, h, w)
        windows = F.unfold(x, 3, padding=1).view(n, c, 9, h, w)
        x = (windows * self.kernel(x).softmax(1).unsqueeze(1)).sum(2)
        gamma, beta = self.film(task)[:, :, None, None].chunk(2, 1)
        return F.adaptive_max_pool2d(x * (1 + gamma) + beta, [2, 2])


class Dlrm(nn.Module):
    """Embeddings of a row's ids, the dot products of all pairs, crosses, a deep part."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(5, C) for _ in range(3)])
        self.dense, self.top, self.first = nn.Linear(3, C), nn.Linear(6 + C, 1), nn.EmbeddingBag(5, 1, mode="sum")
        self.cross = nn.Parameter(torch.randn(2, C))

    def forward(self, numbers, ids):
        d = F.relu(self.dense(numbers))
        parts: List[Tensor] = [d]
        for i, table in enumerate(self.tables):
            parts.append(table(ids[:, i]))
        z = torch.stack(parts, 1)
        pairs = torch.bmm(z, z.transpose(1, 2))
        where = torch.tril_indices(4, 4, -1, device=ids.device)
        second = 0.5 * (z.sum(1) ** 2 - (z**2).sum(1)).sum(1, keepdim=True)
        crossed = d * (d @ self.cross[0]).unsqueeze(1) + self.cross[1]
        return self.top(torch.cat([pairs[:, where[0], where[1]], crossed], 1)) + self.first(ids) + second


class Trees(nn.Module):
    """Soft decision trees: paths by products, sparse choices of features by sparsemax."""

    def __init__(self):
        super().__init__()
        self.choose, self.at = nn.Parameter(torch.randn(3, C)), nn.Parameter(torch.randn(3))
        self.leaves = nn.Parameter(torch.randn(4, 2))

    def sparsemax(self, z: Tensor) -> Tensor:
        ordered, _ = torch.sort(z, -1, descending=True)
        sums = ordered.cumsum(-1) - 1
        k = torch.arange(1, z.size(-1) + 1, device=z.device).to(z.dtype)
        count = (k * ordered > sums).sum(-1, keepdim=True)
        return torch.clamp(z - sums.gather(-1, count - 1) / count.to(z.dtype), min=0)

    def forward(self, x):
        go = torch.sigmoid(x @ self.sparsemax(self.choose).t() - self.at)
        left, right = go[:, :1] * torch.cat([go[:, 1:2], 1 - go[:, 1:2]], 1), (1 - go[:, :1]) * torch.stack([go[:, 2], 1 - go[:, 2]], 1)
        return torch.cat([left, right], 1) @ self.leaves


class Field(nn.Module):
    """NeRF: encoded points, density and colour, light along rays by a product of what passes."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(15, 8), nn.Linear(8, 4)
        self.register_buffer("octaves", 2.0 ** torch.arange(2))

    def forward(self, x):
        turns = (x.unsqueeze(-1) * self.octaves.to(x.dtype)).flatten(-2)
        h = self.b(F.relu(self.a(torch.cat([x, turns.sin(), turns.cos()], -1))))
        density, colour = F.softplus(h[..., 0]), torch.sigmoid(h[..., 1:])
        alpha = 1 - torch.exp(-density * 0.3)
        passed = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], 1), 1)[:, :-1]
        return ((alpha * passed).unsqueeze(-1) * colour).sum(1)


class Prototypes(nn.Module):
    """Means of the classes of a support set, distances of the queries to them; radial functions; Sinkhorn's rounds."""

    def __init__(self):
        super().__init__()
        self.embed, self.centres, self.width = nn.Linear(3, C), nn.Parameter(torch.randn(3, C)), nn.Parameter(torch.zeros(3))

    def forward(self, support, query):
        s, q = self.embed(support), self.embed(query)
        distances = -torch.cdist(q, s.view(s.size(0), 2, 2, -1).mean(2)) ** 2
        radial = torch.exp(-self.width.exp() * (q.unsqueeze(2) - self.centres).pow(2).sum(-1))
        plan = torch.bmm(q, s.transpose(1, 2))
        for _ in range(3):
            plan = plan - plan.logsumexp(2, keepdim=True)
            plan = plan - plan.logsumexp(1, keepdim=True)
        return distances.log_softmax(-1), radial, plan.exp()


class Momentum(nn.Module):
    """A buffer's running mean and a teacher's weights that follow by moving averages in the forward pass."""

    def __init__(self):
        super().__init__()
        self.student = nn.Linear(C, C)
        self.register_buffer("teacher", self.student.weight.detach().clone())
        self.register_buffer("centre", torch.zeros(1, C))
        self.register_buffer("seen", torch.tensor(0))

    def forward(self, x):
        s = self.student(x)
        with torch.no_grad():
            t = F.linear(x, self.teacher)
            goal = ((t - self.centre) / 0.5).softmax(-1)
            if self.training:
                self.seen += 1
                self.centre.copy_(self.centre * 0.9 + t.mean(0, keepdim=True) * 0.1)
                self.teacher.lerp_(self.student.weight, 0.1)
        return -(goal * s.log_softmax(-1)).sum(-1), s / (1 + self.seen)


def image(channels, size):
    return torch.randn(N, channels, size, size, dtype=torch.float64)


def floats(*shapes):
    return lambda: tuple(torch.randn(N, *shape, dtype=torch.float64) for shape in shapes)


NETS = {
    **both("siamese", Siamese, lambda: (image(1, 6), image(1, 6))),
    **both("hypernet", Hypernet, floats([C], [3])),
    **both("capsules", Capsules, rows(1, 7, 7)),
    **both("neural ode", Ode, rows(C)),
    **both("pointnet", PointNet, rows(3, 5)),
    **both("edge convolutions", EdgeConv, rows(5, 3)),
    **both("graph attention", GraphAttention, rows(4, C), quick=True),
    **both("experts, soft", lambda: Experts(True), rows(C)),
    **both("experts, best two", lambda: Experts(False), rows(C)),
    **both("experts, dispatched", Dispatched, rows(C), per_member=("aten::where", "aten::index", "aten::linear", "aten::index_add",
                                                                  "aten::mul", "aten::unsqueeze")),
    "vq-vae, script": Net(Quantised, rows(C), "script"),  # a trace of train mode moves the codes in eval mode too
    **both("flow", Flow, rows(C), rate=1e-3),
    **both("mixture density", Mixture, floats([C], [1])),
    **both("spatial transformer", Stn, rows(1, 6, 6)),
    **both("attended", Attended, floats([2, 5, 5], [3])),
    **both("dlrm", Dlrm, lambda: (torch.randn(N, 3, dtype=torch.float64), torch.randint(0, 5, (N, 3)))),
    **both("soft trees", Trees, rows(C)),
    **both("radiance field", Field, rows(5, 3)),
    **both("prototypes", Prototypes, floats([4, 3], [3, 3])),
    "teacher, script": Net(Momentum, rows(C), "script"),
}
