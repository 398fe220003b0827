"""torchvision: classifiers (the smallest of each family), segmentation, and a U-Net."""
import torch
import torch.nn.functional as F
from torch import nn

from .case import Loss, N, Net, without_dropout


def both(name, build, inputs, **fields):
    """The network traced and scripted."""
    return {f"{name}, {kind}": Net(build, inputs, kind, needs=("torchvision",), rate=1e-4, **fields) for kind in ("trace", "script")}


def images(size, rows=N):
    return lambda: (torch.randn(rows, 3, size, size, dtype=torch.float64),)


def classifier(name, size=32, options={}, **fields):
    def build():
        import torchvision

        return without_dropout(getattr(torchvision.models, name)(weights=None, num_classes=3, **options))
    return both(name, build, images(size), **fields)


def segmentation(name, rows=N, **options):
    def build():
        import torchvision

        return without_dropout(getattr(torchvision.models.segmentation, name)(
            weights=None, weights_backbone=None, num_classes=3, **options))
    return both(name, build, images(32, rows))


def summed(*weights):
    """Cross entropy of each output, weighted."""
    spec = " + ".join(("" if w == 1 else f"{w}*") + f"cross_entropy@{i}" for i, w in enumerate(weights))
    return Loss(spec, lambda outputs, y: sum(w * F.cross_entropy(o, y) for w, o in zip(weights, outputs)), 3)


class Block(nn.Sequential):
    def __init__(self, a, b):
        super().__init__(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True),
                         nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True))


class UNet(nn.Module):
    """Pads what comes up to the size of what came down."""

    def __init__(self, transposed=True):
        super().__init__()
        self.a, self.b, self.c = Block(3, 4), Block(4, 8), Block(8, 4)
        self.up = nn.ConvTranspose2d(8, 4, 2, 2) if transposed else nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(8, 4, 1))
        self.end = nn.Conv2d(4, 3, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.up(self.b(F.max_pool2d(a, 2)))
        dy, dx = a.size(2) - b.size(2), a.size(3) - b.size(3)
        b = F.pad(b, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.end(self.c(torch.cat([a, b], 1)))


class SwinNet(nn.Module):
    def __init__(self):
        super().__init__()
        from torchvision.models.swin_transformer import SwinTransformer

        self.inner = SwinTransformer([4, 4], 8, [2, 2], [2, 2], [4, 4], stochastic_depth_prob=0.0, num_classes=3)

    def forward(self, x):
        return self.inner(x)


def vit():
    import torchvision

    return torchvision.models.VisionTransformer(16, 8, 2, 2, 8, 12, num_classes=3)


class MaxVit(nn.Module):
    def __init__(self):
        super().__init__()
        from torchvision.models.maxvit import MaxVit

        self.inner = MaxVit((32, 32), 8, 2, [8, 12], [1, 2], 4, stochastic_depth_prob=0.0, num_classes=3)

    def forward(self, x):
        return self.inner(x)


STEADY = {"stochastic_depth_prob": 0.0}
AUX = {"init_weights": True}
# Batch norms at the end of a network of stride 32 see 2x2 of 64x64.
NETS = {}
for name, size, options in [
        ("mnasnet0_5", 64, {}), ("mobilenet_v2", 64, {}), ("mobilenet_v3_small", 64, {}), ("regnet_x_400mf", 64, {}),
        ("regnet_y_400mf", 64, {}), ("resnet18", 64, {}), ("shufflenet_v2_x0_5", 64, {}), ("squeezenet1_1", 32, {})]:
    NETS |= classifier(name, size, options)
for name, size, options in [
        ("alexnet", 64, {}), ("convnext_tiny", 32, STEADY), ("densenet121", 64, {}), ("efficientnet_b0", 64, STEADY),
        ("efficientnet_v2_s", 64, STEADY), ("googlenet", 64, AUX), ("resnext50_32x4d", 64, {}), ("wide_resnet50_2", 64, {}),
        ("vgg11_bn", 64, {}), ("vit_b_32", 64, {"image_size": 64})]:
    NETS |= classifier(name, size, options, slow=True)
for name, options in [("fcn_resnet50", {"aux_loss": True}), ("lraspp_mobilenet_v3_large", {}),
                      ("deeplabv3_mobilenet_v3_large", {"aux_loss": True, "rows": 4})]:
    NETS |= segmentation(name, **options)
for name, build, inputs, quick in [
        ("unet", UNet, images(9), True), ("unet, upsample", lambda: UNet(False), images(8), False),
        ("swin", SwinNet, images(32), False), ("vit", vit, images(16), False), ("maxvit", MaxVit, images(32), False)]:
    NETS |= both(name, build, inputs)
    NETS[f"{name}, trace"].quick = quick
NETS |= {f"aux loss of {name}": net for name, net in classifier("googlenet", 64, AUX, slow=True, loss=summed(1, 0.3, 0.3)).items()}
for name, size, options in [
        ("squeezenet1_0", 32, {}), ("shufflenet_v2_x1_0", 64, {}), ("shufflenet_v2_x1_5", 64, {}), ("shufflenet_v2_x2_0", 64, {}),
        ("mnasnet0_75", 64, {}), ("mnasnet1_0", 64, {}), ("mnasnet1_3", 64, {}), ("mobilenet_v3_large", 64, {}),
        ("regnet_y_800mf", 64, {}), ("regnet_x_800mf", 64, {}), ("regnet_x_1_6gf", 64, {}), ("regnet_y_1_6gf", 64, {}),
        ("efficientnet_b1", 64, STEADY), ("efficientnet_b2", 64, STEADY), ("densenet169", 64, {}), ("regnet_x_3_2gf", 64, {}),
        ("efficientnet_b3", 64, STEADY), ("regnet_y_3_2gf", 64, {}), ("efficientnet_b4", 64, STEADY), ("densenet201", 64, {}),
        ("resnet34", 64, {}), ("resnet50", 64, {}), ("swin_t", 32, STEADY), ("swin_v2_t", 32, STEADY), ("densenet161", 64, {}),
        ("efficientnet_b5", 64, STEADY), ("regnet_y_8gf", 64, {}), ("regnet_x_8gf", 64, {}), ("efficientnet_b6", 64, STEADY),
        ("resnet101", 64, {}), ("swin_s", 32, STEADY), ("swin_v2_s", 32, STEADY), ("convnext_small", 32, STEADY),
        ("efficientnet_v2_m", 64, STEADY), ("regnet_x_16gf", 64, {}), ("vgg11", 64, {})]:
    NETS |= classifier(name, size, options, full=True)
# Its auxiliary output takes no smaller image.
NETS |= {f"aux loss of {name}": net for name, net in classifier("inception_v3", 299, AUX, full=True, loss=summed(1, 0.4)).items()}
