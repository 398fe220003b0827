"""Networks of many fields, each in a small size."""
import torch
import torch.nn.functional as F
from torch import nn

from .case import Calls, N, Net, rows


class WaveNet(nn.Module):
    def __init__(self, channels=4, layers=3):
        super().__init__()
        self.begin = nn.Conv1d(1, channels, 1)
        self.filters = nn.ModuleList([nn.Conv1d(channels, channels, 2, dilation=2 ** i) for i in range(layers)])
        self.gates = nn.ModuleList([nn.Conv1d(channels, channels, 2, dilation=2 ** i) for i in range(layers)])
        self.mixes = nn.ModuleList([nn.Conv1d(channels, channels, 1) for _ in range(layers)])
        self.end = nn.Conv1d(channels, 5, 1)

    def forward(self, x):
        x = self.begin(x)
        skips = 0
        for i, (f, g, m) in enumerate(zip(self.filters, self.gates, self.mixes)):
            padded = F.pad(x, [1 << i, 0])
            y = m(torch.tanh(f(padded)) * torch.sigmoid(g(padded)))
            skips = skips + y
            x = x + y
        return self.end(F.relu(skips))


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.transform = nn.Sequential(nn.Conv1d(3, 4, 1), nn.BatchNorm1d(4), nn.ReLU())
        self.square = nn.Linear(4, 9)
        self.points = nn.Sequential(nn.Conv1d(3, 4, 1), nn.BatchNorm1d(4), nn.ReLU(), nn.Conv1d(4, 6, 1))
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        square = self.square(self.transform(x).max(2)[0]).view(-1, 3, 3) + torch.eye(3, dtype=x.dtype)
        x = torch.bmm(x.transpose(1, 2), square).transpose(1, 2)
        return self.head(torch.max(self.points(x), 2)[0])


def generator():
    return nn.Sequential(
        nn.ConvTranspose2d(4, 8, 4, 1, 0, bias=False), nn.BatchNorm2d(8), nn.ReLU(True),
        nn.ConvTranspose2d(8, 4, 4, 2, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(True),
        nn.ConvTranspose2d(4, 1, 4, 2, 1, bias=False), nn.Tanh())


def discriminator():
    return nn.Sequential(
        nn.Conv2d(1, 4, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True), nn.Conv2d(4, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8),
        nn.LeakyReLU(0.2, True), nn.Conv2d(8, 1, 4, 1, 0, bias=False), nn.Flatten(), nn.Sigmoid())


class GraphLayer(nn.Module):
    """Messages along fixed edges, summed and counted at their ends."""

    def __init__(self, nodes=3, width=3):
        super().__init__()
        self.own, self.message = nn.Linear(width, width), nn.Linear(2 * width, width)
        self.register_buffer("edges", torch.tensor([[0, 1, 2, 0, 2], [1, 2, 0, 2, 1]]))
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        source, target = self.edges[0], self.edges[1]
        messages = torch.relu(self.message(torch.cat([x[:, source], x[:, target]], -1)))
        total = torch.zeros_like(x).index_add(1, target, messages)
        degree = torch.zeros(x.size(1), dtype=x.dtype).index_add(0, target, torch.ones(target.size(0), dtype=x.dtype))
        return self.head(self.own(x) + total / degree.clamp(min=1)[:, None]).mean(1)


class EdgeList(nn.Module):
    """The edges are an input; scatter_add by expanded indices."""

    def __init__(self):
        super().__init__()
        self.message = nn.Linear(3, 3)

    def forward(self, x, edges):
        sent = self.message(x)[edges[:, 0]]
        index = edges[:, 1][:, None].expand_as(sent)
        return torch.zeros_like(x).scatter_add(0, index, sent).tanh()


class Physics(nn.Module):
    """A network for a differential equation: Fourier features with trained frequencies."""

    def __init__(self):
        super().__init__()
        self.frequencies = nn.Parameter(torch.randn(1, 4))
        self.body = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, t):
        phase = 2 * torch.pi * t @ self.frequencies
        return self.body(torch.cat([torch.sin(phase), torch.cos(phase)], -1)) * t * (1 - t)


class Derivative(nn.Module):
    """The same with its own derivative as an output."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(1, 6), nn.Linear(6, 1)

    def forward(self, t):
        h = torch.tanh(self.a(t))
        slope = ((1 - h * h) * self.a.weight.t()) @ self.b.weight.t()
        return self.b(h), slope


class Autoencoder(nn.Module):
    """Pools with indices and unpools; a bottleneck with a learned prior."""

    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 1, 3, padding=1)
        self.code, self.decode = nn.Linear(12, 4), nn.Linear(4, 12)
        self.log_prior = nn.Parameter(torch.zeros(4))

    def forward(self, x):
        y, indices = F.max_pool2d(torch.relu(self.down(x)), 2, return_indices=True)
        code = self.code(y.flatten(1))
        y = self.decode(code).view(-1, 3, 2, 2)
        return self.up(F.max_unpool2d(y, indices, 2)), code * self.log_prior.exp()


class Recommender(nn.Module):
    """Bags of ids, crossed features, a deep and a wide part."""

    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(7, 3, mode="mean")
        self.ids = nn.Embedding(7, 3, padding_idx=0)
        self.deep = nn.Sequential(nn.Linear(9, 6), nn.BatchNorm1d(6), nn.PReLU(), nn.Linear(6, 1))
        self.wide = nn.Linear(3, 1)

    def forward(self, x, ids):
        bag, table = self.bag(ids), self.ids(ids)
        square = 0.5 * (table.sum(1) ** 2 - (table ** 2).sum(1))
        return self.wide(x) + self.deep(torch.cat([x, bag, square], 1))


class Experts(nn.Module):
    """A mixture of experts, all run, the two best mixed."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(3, 4)
        self.w1, self.w2 = nn.Parameter(torch.randn(4, 3, 5)), nn.Parameter(torch.randn(4, 5, 3))

    def forward(self, x):
        best, index = self.gate(x).topk(2, -1)
        weights = torch.zeros(x.size(0), 4, dtype=x.dtype).scatter(1, index, best.softmax(-1))
        hidden = F.gelu(torch.einsum("ni,eio->neo", x, self.w1))
        return torch.einsum("neo,eoi,ne->ni", hidden, self.w2, weights)


class StateSpace(nn.Module):
    """A diagonal state space run by a cumulative product and by a convolution in the frequency domain."""

    def __init__(self):
        super().__init__()
        self.log_decay, self.b, self.c = (nn.Parameter(torch.randn(3)) for _ in range(3))

    def forward(self, x):
        length = x.size(1)
        steps = torch.arange(length, dtype=x.dtype)
        kernel = (-self.log_decay.exp()[:, None] * steps).exp() * (self.b * self.c)[:, None]
        spectrum = torch.fft.rfft(x.transpose(1, 2), 2 * length) * torch.fft.rfft(kernel, 2 * length)
        return torch.fft.irfft(spectrum, 2 * length)[..., :length].transpose(1, 2)


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3))

    def forward(self, a, b):
        x, y = F.normalize(self.body(a), dim=-1), F.normalize(self.body(b), dim=-1)
        return F.cosine_similarity(x, y), torch.cdist(x, y), F.pairwise_distance(x, y)


class Classifier(nn.Module):
    """Depthwise separable convolutions, squeeze and excitation, group norm."""

    def __init__(self):
        super().__init__()
        self.begin = nn.Sequential(nn.Conv2d(2, 4, 3, 2, 1, bias=False), nn.GroupNorm(2, 4), nn.SiLU())
        self.depth = nn.Conv2d(4, 4, 3, padding=1, groups=4, padding_mode="reflect")
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(4, 2, 1), nn.ReLU(), nn.Conv2d(2, 4, 1), nn.Sigmoid())
        self.norm, self.head = nn.InstanceNorm2d(4, affine=True), nn.Linear(4, 3)

    def forward(self, x):
        x = self.begin(x)
        x = x + self.norm(self.depth(x)) * self.squeeze(x)
        return self.head(x.mean((2, 3)))


def pair():
    return torch.randn(N, 3, dtype=torch.float64), torch.randn(N, 3, dtype=torch.float64)


NETS = {}
for kind in ("trace", "script"):
    NETS |= {
        f"wavenet, {kind}": Net(WaveNet, rows(1, 8), kind, quick=kind == "trace"),
        f"pointnet, {kind}": Net(PointNet, rows(3, 5), kind),
        f"dcgan generator, {kind}": Net(generator, rows(4, 1, 1), kind),
        f"dcgan discriminator, {kind}": Net(discriminator, rows(1, 16, 16), kind),
        f"graph layer, {kind}": Net(GraphLayer, rows(3, 3), kind),
        f"graph layer, edges are data, {kind}": Net(
            EdgeList, lambda: (torch.randn(4, 3, dtype=torch.float64), torch.randint(0, 4, (5, 2))), kind),
        f"pinn, {kind}": Net(Physics, rows(1), kind),
        f"pinn with its derivative, {kind}": Net(Derivative, rows(1), kind),
        f"autoencoder, {kind}": Net(Autoencoder, rows(1, 4, 4), kind),
        f"recommender, {kind}": Net(Recommender, lambda: (torch.randn(N, 3, dtype=torch.float64), torch.randint(0, 7, (N, 4))), kind),
        f"mixture of experts, {kind}": Net(Experts, rows(3), kind),
        f"state space, {kind}": Net(StateSpace, rows(4, 3), kind),
        f"siamese, {kind}": Net(Siamese, pair, kind),
        f"classifier, {kind}": Net(Classifier, rows(2, 8, 8), kind),
    }
