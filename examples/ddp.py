"""Several processes, one model: DistributedDataParallel over larder.

    python3 examples/ddp.py --ranks 2                    # gloo on this machine's processors
    torchrun --nproc-per-node 8 examples/ddp.py          # NCCL where there are GPUs

Each process opens its own Loader; rank and world come from torch.distributed. Scores are shared, so all
processes draw from one table. With a cache in larder's daemon, or on several machines in Redis, they have
that in common too, and any recipe draws what one process with the whole batch would:

    larder serve --cache 1GiB &
    python3 examples/ddp.py --recipe rotate --cache 'unix:?budget=20%'
    python3 examples/ddp.py --recipe rotate --cache 'redis://localhost?budget=20%'

`--save FILE` keeps each loader's state in FILE.RANK; a run with another number of processes goes on from
all of them (with one cache, and the same batch in all; else recipes whose order all have in common)."""

import argparse
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import larder  # noqa: E402


def train(rank, a, meet):
    cuda = torch.cuda.is_available()
    if meet:
        dist.init_process_group(
            "gloo", init_method=f"file://{meet}", rank=rank, world_size=a.ranks
        )
    else:
        dist.init_process_group("nccl" if cuda else "gloo")
        rank = dist.get_rank()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)) if cuda else 0)
    device = device if cuda and not meet else torch.device("cpu")
    torch.manual_seed(0)
    loader = larder.Loader(
        a.data, a.batch, recipe=a.recipe, cache=a.cache, augment=a.augment, threads=1
    )
    if rank == 0:  # so far it was mostly `import torch`, once in each process
        print(f"{loader.world} processes, {len(loader)} batches an epoch", flush=True)
    mine, first = f"{a.save}.{rank}", f"{a.save}.0"
    if a.save and os.path.exists(first):
        ranks = torch.load(first, weights_only=True)["world"]
        states = [torch.load(f"{a.save}.{r}", weights_only=True) for r in range(ranks)]
        loader.load_state_dict(states)
        dist.barrier()  # nobody writes before all have read
    shape = loader.sample_shape
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], 64), nn.ReLU(), nn.Linear(64, 10)
    ).to(device)
    model = nn.parallel.DistributedDataParallel(model)
    sgd = torch.optim.SGD(model.parameters(), 0.05)
    for epoch in range(loader.epoch, a.epochs):
        loader.set_epoch(epoch)  # changes nothing here; harmless habit
        total = torch.zeros(2)
        for x, y in loader:
            loss = F.cross_entropy(model(x.to(device)), y.to(device) % 10, reduction="none")
            loader.report(loss=loss)
            sgd.zero_grad()
            loss.mean().backward()
            sgd.step()
            total += torch.tensor([loss.sum().item(), len(y)])
        total = total.to(device)
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch}: {int(total[1])} samples, loss {total[0] / total[1]:.4f}", flush=True)
        if a.save:
            torch.save(loader.state_dict(), mine)
        dist.barrier()
    loader.close()
    del model  # before its group: who ends that last must not hold Python's lock
    dist.destroy_process_group()


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--data", default="mem:?n=4000&h=16&w=16&c=3&classes=10")
    p.add_argument("--augment", default="crop:size=16,pad=2|flip")
    p.add_argument("--recipe", default="lru:sampler=weighted,signal=loss")
    p.add_argument("--cache", default="20%")
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--save", metavar="FILE")
    a = p.parse_args()
    if "RANK" in os.environ:
        train(int(os.environ["RANK"]), a, None)
        return
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(
            train, (a, os.path.join(folder, "meet")), nprocs=a.ranks, start_method="spawn"
        )


if __name__ == "__main__":
    main()
