"""ImageNet as it is trained today: RandAugment, mixup or CutMix, label smoothing, an average of the weights (EMA),
bfloat16, torch.compile, several GPUs; and going on where it stopped, in the middle of an epoch too.

    python3 examples/imagenet.py photos/train photos/val
    python3 examples/imagenet.py photos/train photos/val --decode auto --compile --resume run.pt
    torchrun --nproc-per-node 8 examples/imagenet.py packed/train photos/val --cache unix: --resume run.pt

`photos/train` has a folder a class; `larder pack` makes `packed/train` of it, which costs half as much to read and
decode (docs/guide/pack.md). Each process opens a Loader of its own, which finds its part by itself. `--decode auto`
has the GPU decode as many pictures as the cores cannot, where `--magnitude 0` leaves RandAugment out, which is theirs.

Measured (docs/results/feed.md): ResNet-50 on an H200 takes 4,730 images/s; 8 cores feed it all of them, 2 cores with `--decode auto` 4,518.
"""

import argparse
import math
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import larder  # noqa: E402


def options():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("train")
    p.add_argument("val")
    p.add_argument("--net", default="resnet50", help="a classifier of torchvision.models, or tiny")
    p.add_argument("--epochs", type=int, default=100)
    p.add_argument("--batch", type=int, default=256, help="of each process")
    p.add_argument("--size", type=int, default=176, help="pixels in training; 27 %% more are used to evaluate")
    p.add_argument("--lr", type=float, default=0.5, help="of 1,024 pictures a step")
    p.add_argument("--warm-up", type=float, default=5, help="epochs")
    p.add_argument("--decay", type=float, default=2e-5, help="of weights; biases and norms have none")
    p.add_argument("--smoothing", type=float, default=0.1, help="of labels")
    p.add_argument("--magnitude", type=int, default=7, help="of RandAugment; 0: none")
    p.add_argument("--mixup", type=float, default=0.2, help="alpha, half of the time; the other half CutMix; 0: neither")
    p.add_argument("--ema", type=float, default=0.9999, help="what stays of the average in a step")
    p.add_argument("--recipe", default="minio", help="docs/guide/recipes.md; rotate where storage is slow")
    p.add_argument("--cache", default="20%")
    p.add_argument("--decode", choices=["cpu", "gpu", "auto"], help="where pictures are decoded")
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--compile", action="store_true")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--resume", metavar="FILE", help="written after each epoch and on Ctrl-C, and gone on from")
    return p.parse_args()


def start():
    """Rank, number of processes and device."""
    cuda = torch.cuda.is_available()
    local = int(os.environ.get("LOCAL_RANK", 0))
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
        torch.cuda.set_stream(torch.cuda.Stream(priority=-1))  # training before what the GPU decodes
        torch.backends.cudnn.benchmark = True
    if "RANK" not in os.environ:
        return 0, 1, device
    dist.init_process_group("nccl" if cuda else "gloo")
    return dist.get_rank(), dist.get_world_size(), device


def loaders(a, device):
    """Training's and evaluation's."""
    more = {"device": device, "layout": "channels_last"} if device.type == "cuda" else {}
    if a.decode:
        more["decode"] = a.decode
    stages = [f"rrc:size={a.size}", "flip"]
    stages += [f"randaugment:magnitude={a.magnitude}"] if a.magnitude else []
    stages += ["normalize:preset=imagenet"]
    stages += [f"mixup:alpha={a.mixup},p=1", "cutmix:alpha=1,p=1"] if a.mixup else []
    train = larder.Loader(a.train, a.batch, recipe=a.recipe, cache=a.cache, seed=a.seed, augment=stages,
                          drop_last=True, threads=a.threads, **more)
    larger = round(a.size * 1.27 / 8) * 8
    val = larder.Loader(a.val, a.batch, shuffle=False, cache="0", threads=a.threads, augment=[
        f"resize:size={larger * 8 // 7}", f"centercrop:size={larger}", "normalize:preset=imagenet"], **more)
    return train, val


def network(a, classes, device):
    if a.net == "tiny":  # to try the script out
        layers = [nn.Conv2d(3, 16, 3, 4), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        net = nn.Sequential(*layers, nn.Linear(16, classes))
    else:
        import torchvision

        net = getattr(torchvision.models, a.net)(num_classes=classes)
    return net.to(device, memory_format=torch.channels_last)


def optimizer_of(a, net, device, total):
    """Biases and norms are not pulled towards 0."""
    plain = [p for p in net.parameters() if p.ndim > 1]
    rest = [p for p in net.parameters() if p.ndim <= 1]
    groups = [{"params": plain, "weight_decay": a.decay}, {"params": rest, "weight_decay": 0.0}]
    fused = {"fused": True} if device.type == "cuda" else {}
    return torch.optim.SGD(groups, a.lr * total / 1024, momentum=0.9, nesterov=True, **fused)


def rate(a, step, epoch_steps, total):
    """Up in a line, then down by a cosine."""
    top, warm, all_steps = a.lr * total / 1024, a.warm_up * epoch_steps, a.epochs * epoch_steps
    if step < warm:
        return top * (step + 1) / (warm + 1)
    return top * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, all_steps - warm)))


def average_of(net, stays):
    """Of the weights over the last steps, fewer at first; it is what is evaluated."""
    return torch.optim.swa_utils.AveragedModel(
        net, avg_fn=lambda old, new, n: old + (new - old) * (1 - min(stays, (1 + n) / (10 + n))), use_buffers=True)


def evaluate(net, val, device, world):
    net.eval()
    count = torch.zeros(2, device=device)
    with torch.no_grad(), torch.autocast(device.type, torch.bfloat16):
        for x, y in val:
            count += torch.stack([(net(x).argmax(1) == y).sum(), torch.tensor(len(y), device=device)])
    if world > 1:
        dist.all_reduce(count)
    return (count[0] / count[1]).item()


def save(a, rank, world, parts, train):
    """One file, with every process's place in its data."""
    if not a.resume:
        return
    states = [train.state_dict()]
    if world > 1:
        states = [None] * world
        dist.all_gather_object(states, train.state_dict())
    if rank == 0:
        torch.save({"loaders": states, **{k: v.state_dict() for k, v in parts.items()}}, a.resume + ".new")
        os.replace(a.resume + ".new", a.resume)


def main():
    a = options()
    rank, world, device = start()
    torch.manual_seed(a.seed)
    train, val = loaders(a, device)
    classes, total = len(train.classes), a.batch * world
    net = network(a, classes, device)
    average, sgd = average_of(net, a.ema), optimizer_of(a, net, device, total)
    parts = {"net": net, "average": average, "sgd": sgd}
    if a.resume and os.path.exists(a.resume):
        kept = torch.load(a.resume, map_location="cpu")
        for name, part in parts.items():
            part.load_state_dict(kept[name])
        train.load_state_dict(kept["loaders"])
        if rank == 0:
            print(f"goes on in epoch {train.epoch}", flush=True)
    whole = nn.parallel.DistributedDataParallel(net) if world > 1 else net
    forward = torch.compile(whole) if a.compile else whole
    step = int(average.n_averaged)
    try:
        while train.epoch < a.epochs:
            epoch, begun, seen = train.epoch, time.time(), 0
            net.train()
            for batch in train:
                for group in sgd.param_groups:
                    group["lr"] = rate(a, step, len(train), total)
                with torch.autocast(device.type, torch.bfloat16):
                    loss = F.cross_entropy(forward(batch.x), batch.mixed_targets(classes), reduction="none",
                                           label_smoothing=a.smoothing)
                train.report(loss=loss.detach())
                sgd.zero_grad(set_to_none=True)
                (loss * batch.weight).mean().backward()
                sgd.step()
                average.update_parameters(net)
                step, seen = step + 1, seen + total
            took = time.time() - begun
            right = evaluate(average, val, device, world)
            train.validate(right)
            if rank == 0:
                print(f"epoch {epoch}: {100 * right:.2f} % right, {seen / took:.0f} images a second", flush=True)
            save(a, rank, world, parts, train)
    except KeyboardInterrupt:  # of several processes torchrun ends all at once: the last epoch's file stays
        if world == 1:
            save(a, rank, world, parts, train)
        print("stopped", flush=True)
    train.close()
    val.close()
    del forward, whole  # before its group: who ends that last must not hold Python's lock
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
