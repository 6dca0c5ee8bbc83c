"""Which pixels are what? Pictures with masks, in WebDataset shards, or shapes made up here.

    python3 examples/segmentation.py                          # made up: discs and squares on noise
    python3 examples/segmentation.py 'tar:shards/{000..009}.tar' --picture jpg --mask seg.png --classes 21

A sample is a picture and a mask of the same name (7.jpg, 7.seg.png). Crops and flips by chance fall on both
alike; the mask's numbers stay what they are."""

import argparse
import io
import os
import random
import sys
import tarfile
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import larder  # noqa: E402


def shapes(side):
    """A disc (1) and a square (2) of any colour on noise, as a PPM and a PGM."""
    pixels, mask = bytearray(random.choices(range(256), k=3 * side * side)), bytearray(side * side)
    for what in (1, 2):
        r, x0, y0 = random.randint(5, 10), random.randint(10, side - 11), random.randint(10, side - 11)
        colour = bytes((random.randint(150, 255), random.randint(0, 60), 40)[::1 if what == 1 else -1])
        for y in range(y0 - r, y0 + r + 1):
            for x in range(x0 - r, x0 + r + 1):
                if what == 2 or (x - x0) ** 2 + (y - y0) ** 2 <= r * r:
                    pixels[3 * (y * side + x):3 * (y * side + x) + 3] = colour
                    mask[y * side + x] = what
    return b"P6 %d %d 255\n" % (side, side) + pixels, b"P5 %d %d 255\n" % (side, side) + mask


def make(path, n, side=48):
    random.seed(1)
    with tarfile.open(path, "w") as out:
        for i in range(n):
            for ending, data in zip(("ppm", "seg.pgm"), shapes(side)):
                head = tarfile.TarInfo(f"{i:06d}.{ending}")
                head.size = len(data)
                out.addfile(head, io.BytesIO(data))


class Net(nn.Module):
    """Down, up, and past each other: a small U-Net."""

    def __init__(self, classes, width=16):
        super().__init__()
        step = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 3, 1, 1), nn.BatchNorm2d(b), nn.ReLU())  # noqa: E731
        self.one, self.two, self.three = step(3, width), step(width, 2 * width), step(2 * width, 2 * width)
        self.back, self.head = step(4 * width, width), nn.Conv2d(2 * width, classes, 1)

    def forward(self, x):
        a = self.one(x)
        b = self.two(F.max_pool2d(a, 2))
        c = self.three(F.max_pool2d(b, 2))
        b = self.back(torch.cat([b, F.interpolate(c, b.shape[2:])], 1))
        return self.head(torch.cat([a, F.interpolate(b, a.shape[2:])], 1))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("data", nargs="?", help="shards; else shapes are made up")
    p.add_argument("--picture", default="ppm", help="the member that is the picture")
    p.add_argument("--mask", default="seg.pgm", help="the member that is its mask")
    p.add_argument("--classes", type=int, default=3)
    p.add_argument("--size", type=int, default=40, help="of crops")
    p.add_argument("--samples", type=int, default=240, help="that are made up")
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--epochs", type=int, default=5)
    a = p.parse_args()
    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as made:
        data = a.data or f"tar:{made}/shapes.tar"
        if not a.data:
            make(os.path.join(made, "shapes.tar"), a.samples)
        fields, last = [a.picture, f"mask={a.mask}:mask"], "normalize:preset=imagenet"
        with larder.Loader(data + "?take=-10%", fields=fields, augment=f"crop:size={a.size}|flip|{last}",
                           batch_size=a.batch, epochs=a.epochs, seed=1) as loader, \
                larder.Loader(data + "?take=10%", fields=fields, augment=f"centercrop:size={a.size}|{last}",
                              batch_size=a.batch, shuffle=False) as held:
            net = Net(a.classes).to(device)
            optimizer = torch.optim.Adam(net.parameters(), 3e-3)
            for epoch in range(a.epochs):
                net.train()
                for batch in loader:
                    loss = F.cross_entropy(net(batch.x.to(device)), batch.mask.long().to(device), ignore_index=255)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                net.eval()
                both, either = torch.zeros(a.classes), torch.zeros(a.classes)
                with torch.no_grad():
                    for b in held:
                        guess, right = net(b.x.to(device)).argmax(1).cpu(), b.mask
                        for k in range(a.classes):
                            both[k] += ((guess == k) & (right == k)).sum()
                            either[k] += ((guess == k) | (right == k)).sum()
                print(f"epoch {epoch}: loss {loss.item():.3f}, overlap {100 * (both / either.clamp(min=1)).mean():.0f} %",
                      flush=True)


if __name__ == "__main__":
    main()
