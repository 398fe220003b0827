"""DCGAN: generator and discriminator fused apart, trained in turn by a user's own loop, equal to each pair alone."""
import pytest
import torch
from torch import nn, optim
from torch.nn.functional import binary_cross_entropy_with_logits as bce

from chorus_testing import assert_close, nudged, seeded, state

chorus = pytest.importorskip("chorus", reason="the Python module is not built here")

K, N, Z, STEPS = 3, 4, 6, 4
LR = 1e-3


def generator():
    def up(a, b, *geometry):
        return [nn.ConvTranspose2d(a, b, *geometry, bias=False), nn.BatchNorm2d(b), nn.ReLU()]

    return nn.Sequential(*up(Z, 8, 4, 1, 0), *up(8, 4, 4, 2, 1), nn.ConvTranspose2d(4, 3, 4, 2, 1, bias=False), nn.Tanh())


def discriminator():
    return nn.Sequential(nn.Conv2d(3, 4, 4, 2, 1, bias=False), nn.LeakyReLU(0.2),
                         nn.Conv2d(4, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.LeakyReLU(0.2),
                         nn.Conv2d(8, 1, 4, 1, 0, bias=False), nn.Flatten(0))


def data():
    draws = torch.Generator().manual_seed(3)
    return [(torch.rand(N, 3, 16, 16, generator=draws) * 2 - 1, torch.randn(N, Z, 1, 1, generator=draws))
            for _ in range(STEPS)]


def adam(module, lr):
    return optim.Adam(module.parameters(), lr=lr, betas=(0.5, 0.999))


def train_pair(g, d, rate):
    """The loop of the DCGAN paper. Works for one pair and for K fused ones: the losses of members add up."""
    step_g, step_d = adam(g, rate), adam(d, rate)
    for real, noise in data():
        fake = g(noise)
        logits, faked = d(real), d(fake.detach())
        loss = rows(logits, 1.0) + rows(faked, 0.0)
        step_d.zero_grad()
        loss.backward()
        step_d.step()
        step_g.zero_grad()
        rows(d(fake), 1.0).backward()
        step_g.step()


def rows(logits, label):
    """Mean over a member's rows, added over members."""
    return bce(logits, torch.full_like(logits, label), reduction="none").mean(-1).sum()


def pairs():
    return [(seeded(generator, k), seeded(discriminator, 50 + k)) for k in range(K)]


def test_two_fused_modules_trained_in_turn_are_k_pairs_trained_alone():
    mine = pairs()
    noise = data()[0][1]
    g = chorus.fuse([g for g, _ in mine], example_inputs=noise)
    d = chorus.fuse([d for _, d in mine], example_inputs=torch.zeros(N, 3, 16, 16))
    train_pair(g, d, LR)
    chorus.sync_(g, [g for g, _ in mine])
    chorus.sync_(d, [d for _, d in mine])
    for (my_g, my_d), (g0, d0), (g1, d1) in zip(mine, pairs(), pairs()):
        train_pair(g0, d0, LR)
        train_pair(nudged(g1), nudged(d1), LR)
        assert_close(state(my_g), state(g0), 1e-5, noisy=state(g1), what="generator")
        assert_close(state(my_d), state(d0), 1e-5, noisy=state(d1), what="discriminator")
        assert not torch.equal(state(my_g)["0.weight"], state(seeded(generator, 0))["0.weight"])
