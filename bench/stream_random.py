#!/usr/bin/env python3
"""How random is the order of the recipe stream, and what does a training make of it?

    bench/stream_random.py distance [--n 1281167] [--bytes 110000]
    bench/stream_random.py train CIFAR [--images 20000] [--epochs 5] [--seeds 3] [--blocks 200]

distance: how far samples that are neighbours in storage come apart in the served order, against a full shuffle.
train: CIFAR is the folder of CIFAR-10's binary files (plain or .xz). Its images, halved to 16 x 16 pixels and sorted
by class (the hardest order there is: a block holds one class), are read by larder.Loader with a window of 1, 5 and
20 % of the data and by a full shuffle; a small network is trained on the processor. One line of JSON a run.
"""
import argparse
import json
import lzma
import os
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import larder  # noqa: E402

WINDOWS = ("1%", "5%", "20%")


def distances(a):
    source = f"mem:?n={a.n}&bytes={a.bytes}"
    runs = [("minio", "20%")] + [("stream", w) for w in WINDOWS]
    for recipe, cache in runs:
        order = larder.BatchSampler(source, 256, recipe, cache, a.seed)
        ids = np.fromiter((i for batch in order for i in batch), np.int64, a.n)
        place = np.empty(a.n, np.int64)
        place[ids] = np.arange(a.n)
        apart = np.abs(np.diff(place))
        share = apart / a.n
        print(json.dumps({
            "recipe": recipe, "cache": cache, "samples": a.n, "bytes": a.bytes,
            "mean": round(float(share.mean()), 4), "median": round(float(np.median(share)), 4),
            "p10": round(float(np.quantile(share, 0.1)), 4), "p90": round(float(np.quantile(share, 0.9)), 4),
            "same_batch_of_256": round(float((place[1:] // 256 == place[:-1] // 256).mean()), 6),
            # of a sample's place in storage and in the served order: 0 in a full shuffle
            "storage_order": round(float(np.corrcoef(place, np.arange(a.n))[0, 1]), 3),
        }), flush=True)


def cifar(folder, names):
    parts = []
    for name in names:
        path = os.path.join(folder, name)
        data = open(path, "rb").read() if os.path.exists(path) else lzma.open(path + ".xz").read()
        parts.append(np.frombuffer(data, np.uint8).reshape(-1, 3073))
    rows = np.concatenate(parts)
    x = rows[:, 1:].reshape(-1, 3, 16, 2, 16, 2).astype(np.float32).mean((3, 5)).round().astype(np.uint8)
    return x, rows[:, 0].astype(np.int64)


def network(torch):
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(24, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(48 * 16, 10))


def train_one(torch, a, source, test, recipe, cache, seed):
    torch.manual_seed(seed)
    net = network(torch)
    steps = a.epochs * (a.images // 100)
    step = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    rate = torch.optim.lr_scheduler.OneCycleLR(step, 0.1, steps)
    loader = larder.Loader(source, 100, recipe=recipe, cache=cache, seed=seed, dtype="uint8", threads=1,
                           epochs=a.epochs, drop_last=True)
    reads = requests = 0
    for epoch in range(a.epochs):
        net.train()
        for batch in loader:
            x, y = torch.as_tensor(batch.x).float() / 127.5 - 1, torch.as_tensor(batch.y)
            loss = torch.nn.functional.cross_entropy(net(x), y)
            step.zero_grad()
            loss.backward()
            step.step()
            rate.step()
        f = loader.figures(epoch)
        reads, requests = reads + f["misses"] + f["background_reads"], requests + f["requests"]
    net.eval()
    with torch.no_grad():
        right = sum(int((net(x.float() / 127.5 - 1).argmax(1) == y).sum())
                    for x, y in zip(test[0].split(500), test[1].split(500)))
    loader.close()
    return {"recipe": recipe, "cache": cache, "seed": seed, "accuracy": round(100 * right / len(test[1]), 2),
            "reads": reads, "requests": requests}


def train(a):
    import torch

    torch.set_num_threads(a.threads)
    x, y = cifar(a.cifar, [f"data_batch_{i}.bin" for i in range(1, 6)])
    x, y = x[:a.images], y[:a.images]
    order = np.argsort(y, kind="stable")
    test = tuple(torch.from_numpy(t) for t in cifar(a.cifar, ["test_batch.bin"]))
    block = a.images // a.blocks * 768
    with tempfile.TemporaryDirectory() as folder:
        np.save(os.path.join(folder, "x.npy"), x[order])
        np.save(os.path.join(folder, "y.npy"), y[order])
        source = f"npy:{folder}/x.npy?labels={folder}/y.npy"
        for seed in range(1, a.seeds + 1):
            for recipe, cache in [("minio", "20%")] + [(f"stream:block={block}", w) for w in WINDOWS]:
                if a.only and (recipe == "minio" or cache != a.only):
                    continue
                print(json.dumps(train_one(torch, a, source, test, recipe, cache, seed)), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="what", required=True)
    d = sub.add_parser("distance")
    d.add_argument("--n", type=int, default=1281167)
    d.add_argument("--bytes", type=int, default=110000)
    d.add_argument("--seed", type=int, default=1)
    d.set_defaults(run=distances)
    t = sub.add_parser("train")
    t.add_argument("cifar")
    t.add_argument("--images", type=int, default=20000)
    t.add_argument("--epochs", type=int, default=5)
    t.add_argument("--blocks", type=int, default=200, help="of the data: 1 %% has the two that a window needs")
    t.add_argument("--only", default="", help="one of the windows")
    t.add_argument("--seeds", type=int, default=3)
    t.add_argument("--threads", type=int, default=1)
    t.set_defaults(run=train)
    a = p.parse_args()
    a.run(a)


if __name__ == "__main__":
    main()
