"""CIFAR-10 with a ResNet-18, through any recipe.

    python3 examples/cifar10.py cifar10:data --recipe rotate:h=0.8 --cache 20% --epochs 30
    python3 examples/cifar10.py cifar10:data --recipe spider --resume run.pt

`cifar10:data` is the folder with data_batch_1.bin … (the binary version). `--resume FILE` saves model
and loader after every epoch and on Ctrl-C, and goes on there when the file exists (with the same --epochs:
the learning rate follows them).

On a data-centre GPU an epoch takes seconds. A processor core takes about three quarters of an hour for one
of ResNet-18, and ten seconds for one of `--model small`, which is there for those without a GPU. The time that
an epoch will take is told after its first ten steps."""

import argparse
import os
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import larder  # noqa: E402


class Block(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.short = nn.Identity()
        if stride != 1 or before != width:
            self.short = nn.Sequential(
                nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.short(x))


class ResNet18(nn.Module):
    """For pictures of 32 x 32: a first convolution of 3 x 3, and no pooling before the blocks."""

    def __init__(self, classes=10, width=64):
        super().__init__()
        layers = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        before = width
        for k, stride in enumerate((1, 2, 2, 2)):
            layers += [Block(before, width << k, stride), Block(width << k, width << k, 1)]
            before = width << k
        self.body = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(before, classes)

    def forward(self, x):
        return self.head(self.pool(self.body(x)).flatten(1))


class Small(nn.Module):
    """Three convolutions, for processors."""

    def __init__(self, classes=10, width=16):
        super().__init__()
        layers, before = [], 3
        for k in range(3):
            layers += [nn.Conv2d(before, width << k, 3, 2, 1), nn.BatchNorm2d(width << k), nn.ReLU()]
            before = width << k
        self.body = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(before, classes)

    def forward(self, x):
        return self.head(self.pool(self.body(x)).flatten(1))


class Clock:
    """Says once how long an epoch will take."""

    def __init__(self, batches):
        self.batches, self.step, self.begun = batches, 0, None

    def tick(self):
        self.step += 1
        if self.step == 1 and self.batches > 12:
            self.begun = time.time()  # the first one warms up
        elif self.step == 11 and self.begun:
            seconds = (time.time() - self.begun) / 10 * self.batches
            text = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
            print(f"an epoch will take about {text} here ({self.batches} batches)", flush=True)


def accuracy_of(model, loader, device):
    model.eval()
    right = seen = 0
    with torch.no_grad():
        for x, y in loader:
            right += (model(x.to(device)).argmax(1) == y.to(device)).sum().item()
            seen += len(y)
    model.train()
    return right / seen


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("data", help="cifar10:FOLDER")
    p.add_argument("--test", help="validation data (the same with ?split=test)")
    p.add_argument("--recipe", default="minio")
    p.add_argument("--cache", default="20%")
    p.add_argument("--epochs", type=int, default=30)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--lr", type=float, default=0.1)
    p.add_argument("--model", choices=("resnet18", "small"), default="resnet18")
    p.add_argument("--width", type=int, help="channels of the first layer (64; small: 16)")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--resume", metavar="FILE")
    a = p.parse_args()
    torch.manual_seed(a.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    where = device if device == "cuda" else None

    train = larder.Loader(
        a.data, a.batch, recipe=a.recipe, cache=a.cache, seed=a.seed, device=where,
        augment=["crop:size=32,pad=4", "flip", "normalize:preset=cifar10"],
    )
    test = larder.Loader(
        a.test or a.data + "?split=test", 512, shuffle=False, cache="100%", device=where,
        augment=["normalize:preset=cifar10"],
    )
    model = (Small if a.model == "small" else ResNet18)(
        len(train.classes), **({"width": a.width} if a.width else {})
    ).to(device)
    clock = Clock(len(train))
    sgd = torch.optim.SGD(model.parameters(), a.lr, 0.9, weight_decay=5e-4, nesterov=True)
    plan = torch.optim.lr_scheduler.OneCycleLR(sgd, a.lr, total_steps=a.epochs * len(train))
    parts = {"model": model, "sgd": sgd, "plan": plan, "train": train}
    if a.resume and os.path.exists(a.resume):
        for name, state in torch.load(a.resume, map_location=device).items():
            parts[name].load_state_dict(state)
        print(f"goes on in epoch {train.epoch}")

    def save():
        if a.resume:
            torch.save({k: v.state_dict() for k, v in parts.items()}, a.resume + ".new")
            os.replace(a.resume + ".new", a.resume)

    try:
        with train.feedback(model.pool):  # embeddings, for recipes that want them
            while train.epoch < a.epochs:
                epoch, begun = train.epoch, time.time()
                for batch in train:
                    loss = F.cross_entropy(model(batch.x), batch.y, reduction="none")
                    train.report(loss=loss)
                    sgd.zero_grad(set_to_none=True)
                    (loss * batch.weight).mean().backward()
                    sgd.step()
                    plan.step()
                    clock.tick()
                right = accuracy_of(model, test, device)
                train.validate(right)
                f = train.figures(epoch)
                print(
                    f"epoch {epoch}: {100 * right:.2f} % right, {time.time() - begun:.1f} s, hits "
                    f"{f['hits']}, substitutes {f['substitutes']}, repeats {f['repeats']}, read "
                    f"{f['storage_bytes'] / 1e6:.1f} MB",
                    flush=True,
                )
                save()
    except KeyboardInterrupt:
        save()
        print("stopped")
    train.close()
    test.close()


if __name__ == "__main__":
    main()
