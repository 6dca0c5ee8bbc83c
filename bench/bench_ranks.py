#!/usr/bin/env python3
"""How fast the ranks of one job go that share a cache in Redis, each with slow storage of its own.

    bench_ranks.py [--ranks 2] [--recipe rotate:h=0.8] [--source slow:iops=1000:mem:?n=8000&h=16&w=16&c=3]
                   [--batch 64] [--epochs 4] [--rounds 3] [--tree FOLDER ...]

All ranks wait for each other after every batch, as DistributedDataParallel does, so the slowest sets the pace.
Seconds an epoch (those after the first, which fills the cache; median over rounds and the spread) and the
samples each rank read from storage in the last one. --tree: other trees of larder, built, to compare with;
rounds take turns. Ends with 77 where torch or redis-server are missing."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
from ports import redis_server  # noqa: E402


def rank_main(a):
    """One rank: says how long its epochs took and what it read."""
    import torch
    import torch.distributed as dist

    import larder

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{a.meet}", rank=a.rank, world_size=a.ranks)
    seconds = []
    with larder.Loader(a.source, a.batch, recipe=a.recipe, cache=a.cache, threads=1, lag=8) as l:
        for _ in range(a.epochs):
            dist.barrier()
            begun = time.monotonic()
            for _ in l:
                dist.barrier()
            seconds.append(time.monotonic() - begun)
        reads = l.figures(a.epochs - 1)["misses"]
    print(json.dumps({"seconds": seconds, "reads": reads}))
    dist.destroy_process_group()


def run(a, tree, port):
    with tempfile.TemporaryDirectory() as folder:
        me = [sys.executable, __file__, "--meet", f"{folder}/meet", "--ranks", str(a.ranks), "--recipe", a.recipe,
              "--source", a.source, "--batch", str(a.batch), "--epochs", str(a.epochs),
              "--cache", f"redis://127.0.0.1:{port}?budget={a.budget}&timeout=30s&patience=120s"]
        env = dict(os.environ, PYTHONPATH=str(Path(tree) / "python"))
        env.pop("LARDER_SOCKET", None)
        ranks = [subprocess.Popen(me + ["--rank", str(r)], env=env, stdout=subprocess.PIPE) for r in range(a.ranks)]
        said = [json.loads(p.communicate()[0].splitlines()[-1]) for p in ranks]
    epochs = [max(s["seconds"][e] for s in said) for e in range(1, a.epochs)]
    return statistics.mean(epochs), [s["reads"] for s in said]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--recipe", default="rotate:h=0.8")
    p.add_argument("--source", default="slow:iops=1000:mem:?n=8000&h=16&w=16&c=3")
    p.add_argument("--budget", default="20%")
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--tree", action="append", default=[])
    for inner in ("--rank", "--meet", "--cache"):
        p.add_argument(inner, help=argparse.SUPPRESS, type=int if inner == "--rank" else str)
    a = p.parse_args()
    if a.rank is not None:
        rank_main(a)
        return 0
    try:
        import torch.distributed  # noqa: F401
    except ImportError as missing:
        print(f"bench_ranks: skipped, {missing} (apt install python3-torch)")
        return 77
    if not shutil.which("redis-server"):
        print("bench_ranks: skipped, there is no redis-server (apt install redis-server)")
        return 77
    trees = [str(ROOT), *a.tree]
    took, reads = {t: [] for t in trees}, {}
    with tempfile.TemporaryDirectory() as folder:
        server, port = redis_server(folder)
        try:
            for _ in range(a.rounds):
                for t in trees:
                    seconds, reads[t] = run(a, t, port)
                    took[t].append(seconds)
        finally:
            server.terminate()
            server.wait()
    for t in trees:
        print(f"{t}: {statistics.median(took[t]):.2f} s an epoch [{min(took[t]):.2f}..{max(took[t]):.2f}], "
              f"read by rank {' '.join(map(str, reads[t]))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
