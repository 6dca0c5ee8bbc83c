"""The papers' other networks at 32 pixels, for their step times: ResNet-50, VGG-16, MobileNet (v2), ShuffleNet (v2).

Each gives logits and what the last layer is fed with, as those of nets.py do.
"""
import torch
from torch import nn
from torch.nn import functional as F


def conv(inside, out, size=3, stride=1, groups=1, relu=True):
    parts = [nn.Conv2d(inside, out, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(out)]
    return nn.Sequential(*parts, *([nn.ReLU(inplace=True)] if relu else []))


class Features(nn.Module):
    """Some layers, the mean over places, one linear layer."""

    def __init__(self, layers, width, classes):
        super().__init__()
        self.layers, self.last = nn.Sequential(*layers), nn.Linear(width, classes)

    def forward(self, x):
        e = self.layers(x).mean((2, 3))
        return self.last(e), e


class Bottleneck(nn.Module):
    def __init__(self, inside, width, stride):
        super().__init__()
        self.path = nn.Sequential(conv(inside, width, 1), conv(width, width, 3, stride), conv(width, 4 * width, 1, relu=False))
        self.short = conv(inside, 4 * width, 1, stride, relu=False) if stride != 1 or inside != 4 * width else None

    def forward(self, x):
        return F.relu(self.path(x) + (x if self.short is None else self.short(x)), inplace=True)


class ResNet50(Features):
    def __init__(self, classes, side):
        layers, inside = [conv(3, 64, 3, side // 32)], 64
        for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(blocks):
                layers.append(Bottleneck(inside, width, stride if i == 0 else 1))
                inside = 4 * width
        super().__init__(layers, inside, classes)


class VGG16(Features):
    def __init__(self, classes, side):
        layers, inside = [], 3
        for width, blocks in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
            for _ in range(blocks):
                layers.append(conv(inside, width))
                inside = width
            layers.append(nn.MaxPool2d(2))
        super().__init__(layers, inside, classes)


class Inverted(nn.Module):
    def __init__(self, inside, out, stride, grow):
        super().__init__()
        wide = inside * grow
        self.path = nn.Sequential(*([conv(inside, wide, 1)] if grow > 1 else []), conv(wide, wide, 3, stride, wide),
                                  conv(wide, out, 1, relu=False))
        self.adds = stride == 1 and inside == out

    def forward(self, x):
        return x + self.path(x) if self.adds else self.path(x)


class MobileNet(Features):
    def __init__(self, classes, side):
        layers, inside = [conv(3, 32, 3, side // 32)], 32
        for grow, out, blocks, stride in ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                          (6, 160, 3, 2), (6, 320, 1, 1)):
            for i in range(blocks):
                layers.append(Inverted(inside, out, stride if i == 0 else 1, grow))
                inside = out
        super().__init__(layers + [conv(inside, 1280, 1)], 1280, classes)


class Shuffled(nn.Module):
    def __init__(self, inside, out, stride):
        super().__init__()
        half, self.halves = out // 2, stride == 1
        begin = inside // 2 if self.halves else inside
        self.path = nn.Sequential(conv(begin, half, 1), conv(half, half, 3, stride, half, relu=False), conv(half, half, 1))
        self.short = None if self.halves else nn.Sequential(conv(inside, inside, 3, 2, inside, relu=False), conv(inside, half, 1))

    def forward(self, x):
        a, b = x.chunk(2, 1) if self.halves else (self.short(x), x)
        y = torch.stack((a, self.path(b)), 2)
        return y.flatten(1, 2)


class ShuffleNet(Features):
    def __init__(self, classes, side):
        layers, inside = [conv(3, 24, 3, side // 32)], 24
        for out, blocks in ((116, 4), (232, 8), (464, 4)):
            for i in range(blocks):
                layers.append(Shuffled(inside, out, 2 if i == 0 else 1))
                inside = out
        super().__init__(layers + [conv(inside, 1024, 1)], 1024, classes)


PAPER_NETS = {"resnet50": ResNet50, "vgg16": VGG16, "mobilenet": MobileNet, "shufflenet": ShuffleNet}
