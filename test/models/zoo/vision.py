"""torchvision: classifiers (the smallest of each family), segmentation, and a U-Net."""
import torch
import torch.nn.functional as F
from torch import nn

from .case import N, Net, without_dropout


def classifier(name, size=32, kind="trace", quick=False, slow=False, **options):
    def build():
        import torchvision

        return without_dropout(getattr(torchvision.models, name)(weights=None, num_classes=3, **options))
    return Net(build, lambda: (torch.randn(N, 3, size, size, dtype=torch.float64),), kind, needs=("torchvision",), quick=quick,
               slow=slow, rate=1e-4)


def segmentation(name, kind="trace", **options):
    def build():
        import torchvision

        return without_dropout(getattr(torchvision.models.segmentation, name)(
            weights=None, weights_backbone=None, num_classes=3, **options))
    return Net(build, lambda: (torch.randn(N, 3, 32, 32, dtype=torch.float64),), kind, needs=("torchvision",), rate=1e-4)


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


def small(size=9):
    return lambda: (torch.randn(N, 3, size, size, dtype=torch.float64),)


NETS = {}
for kind in ("trace", "script"):
    NETS |= {f"{name}, {kind}": classifier(name, size, kind, **options) for name, size, options in [
        ("alexnet", 64, {"slow": True}), ("convnext_tiny", 32, {"slow": True, "stochastic_depth_prob": 0.0}), ("densenet121", 64, {"slow": True}),
        ("efficientnet_b0", 32, {"slow": True, "stochastic_depth_prob": 0.0}), ("efficientnet_v2_s", 32, {"slow": True, "stochastic_depth_prob": 0.0}),
        ("googlenet", 64, {"init_weights": True}),
        ("inception_v3", 75, {"init_weights": True}), ("mnasnet0_5", 32, {}), ("mobilenet_v2", 32, {}),
        ("mobilenet_v3_small", 32, {}), ("regnet_x_400mf", 32, {}), ("regnet_y_400mf", 32, {}), ("resnet18", 32, {}),
        ("resnext50_32x4d", 32, {}), ("wide_resnet50_2", 32, {}), ("shufflenet_v2_x0_5", 32, {}), ("squeezenet1_1", 32, {}),
        ("vgg11_bn", 32, {}),
    ]}
    NETS |= {f"{name}, {kind}": segmentation(name, kind, **options) for name, options in [
        ("fcn_resnet50", {"aux_loss": True}), ("deeplabv3_mobilenet_v3_large", {"aux_loss": True}),
        ("lraspp_mobilenet_v3_large", {})]}
    NETS |= {
        f"unet, {kind}": Net(UNet, small(), kind, quick=kind == "trace"),
        f"unet, upsample, {kind}": Net(lambda: UNet(False), small(8), kind),
        f"swin, {kind}": Net(SwinNet, small(32), kind, needs=("torchvision",)),
        f"vit, {kind}": Net(vit, small(16), kind, needs=("torchvision",)),
    }
