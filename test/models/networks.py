"""Networks for the tests: name -> (build, input shape of a row, classes)."""
import torch
from torch import nn

from chorus_testing import MLP


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 5),
    )


def conv_bn_dropout():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.0),
        nn.Conv2d(8, 8, 3, padding=1, groups=2, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(), nn.Dropout(0.0), nn.Linear(32, 4),
    )


def torchvision_model(name, **options):
    def build():
        import torchvision

        module = getattr(torchvision.models, name)(num_classes=5, **options)
        for layer in module.modules():
            if isinstance(layer, nn.Dropout):
                layer.p = 0.0
        return module

    return build


SMALL = {
    "mlp": (lambda: MLP(6, 8, 8, 4), (6,), 4),
    "lenet": (lenet, (1, 16, 16), 5),
    "conv_bn_dropout": (conv_bn_dropout, (3, 8, 8), 4),
}
LARGE = {
    "resnet18": (torchvision_model("resnet18"), (3, 32, 32), 5),
    "mobilenet_v2": (torchvision_model("mobilenet_v2"), (3, 32, 32), 5),
    "squeezenet1_1": (torchvision_model("squeezenet1_1"), (3, 64, 64), 5),
}
