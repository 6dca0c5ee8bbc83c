#!/usr/bin/env python3
"""How many images a second loaders bring into a network, with few and many cores: one run a line.

    bench/gpu/pictures.py SOURCE DATA                      # once: see there
    bench/gpu/feed.py DATA --results feed.jsonl --plan quick --budget 400
    bench/gpu/feed.py DATA --results feed.jsonl --plan full --only 'resnet50.*cores=4'
    bench/gpu/feed_table.py feed.jsonl --svg feed.svg

Each line is a process of its own that may use --cores cores (as taskset would) and begins with the GPU's own rate: the
same network, the same batch again and again. What is in the results file is not run again; --budget stops before the
line that would not end in time; a line that fails says why, is written down and stops nobody. --list shows the plan.

A line has
    images_s      median of the windows' rates, least and most: images that training has finished, by the clock
    limit         the GPU's own rate, in the same process just before
    waiting       share of the time in which the GPU had no step of training to do
    gpu_taken     how much longer a step takes beside this loader than alone: what it takes from the GPU, and what
                  a processor that has too much to do delays
    cores_used    CPU time of the process and its children by the clock
of: network (resnet50, vit_b_16, or none: batches are only made), loader (larder, dataloader, torchvision, which is
nvJPEG and v2 transforms on the GPU, webdataset, streaming, ffcv), decode (of larder: cpu, gpu, auto), data (folder,
tar, pack, shrunk), store (warm: in the page cache; cold: not, first epoch alone; slow: larder's throttle of --slow
around it, without and with a cache of half), cores, and first (training is in a stream of high priority). Networks
train under bf16 autocast, ResNet-50 in channels-last memory, by a fused optimizer.
"""
import argparse
import json
import os
import re
import signal
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE), os.path.join(HERE, "../../python")]
import torch  # noqa: E402  before forking: that takes seconds, and no GPU is touched
import torchvision  # noqa: E402

from feed_cores import order_of  # noqa: E402
from feeders import FEEDERS, drop_pages  # noqa: E402
from run_lines import add_run, read_runs  # noqa: E402

KEY = {"net": "resnet50", "loader": "larder", "decode": "cpu", "data": "folder", "store": "warm", "cores": 4,
       "batch": 256, "compile": False, "first": False}
CORES = (4, 8, 2, 16)


def key(line):
    return tuple(line.get(k, usual) for k, usual in KEY.items())


def name(line):
    def say(k):
        return f"{k}={line[k]}" if k in ("cores", "batch") else k if line[k] is True else str(line[k])

    return " ".join(say(k) for k in KEY if line[k] not in ("", False) and (k != "batch" or line[k] != KEY["batch"]))


# ---- which lines ----------------------------------------------------------------------------------------------------

def peer(loader, **more):
    data = "tar" if loader == "webdataset" else "folder"
    return {"loader": loader, "decode": "", "data": data, **more}


def quick():
    """What the README says comes first."""
    for d in ("auto", "auto:fast", "cpu"):
        yield {"decode": d, "cores": 4}
    yield {"decode": "auto", "cores": 4, "first": True}
    yield peer("dataloader", cores=4)
    yield peer("torchvision", cores=4)
    yield {"decode": "cpu", "cores": 8}
    yield {"decode": "cpu", "data": "pack", "cores": 8}
    yield peer("dataloader", cores=8)
    for cores in (2, 16):
        for d in ("auto:fast", "cpu"):
            yield {"decode": d, "cores": cores}
        yield peer("dataloader", cores=cores)
    yield peer("webdataset", cores=4)
    for data in ("folder", "pack", "shrunk", "tar"):
        yield {"net": "none", "decode": "cpu", "data": data, "cores": 4}
    for loader in ("dataloader", "torchvision", "webdataset"):
        yield peer(loader, net="none", cores=4)
    yield {"decode": "auto", "cores": 2}
    yield {"decode": "auto:fast", "cores": 2, "first": True}
    yield {"decode": "auto", "cores": 8}
    yield {"decode": "auto:fast", "cores": 8}
    for cores in (2, 8, 16):
        yield peer("torchvision", cores=cores)
    yield {"net": "vit_b_16", "decode": "auto:fast", "cores": 4}
    yield {"net": "vit_b_16", "decode": "cpu", "cores": 4}
    yield peer("dataloader", net="vit_b_16", cores=4)
    yield {"decode": "cpu", "store": "slow", "cores": 8}
    yield {"decode": "cpu", "store": "slow+cache", "cores": 8}
    yield {"decode": "cpu", "store": "cold", "cores": 8}
    yield peer("dataloader", store="cold", cores=8)
    for data in ("pack", "tar", "shrunk"):
        yield {"decode": "auto:fast", "data": data, "cores": 4}
    yield {"net": "none", "decode": "gpu:fast", "cores": 4}
    yield peer("streaming", cores=4)
    yield peer("ffcv", cores=4)


def full():
    """Quick's lines first, then all around them."""
    yield from quick()
    for net in ("none", "resnet50", "vit_b_16"):
        for cores in CORES:
            for d in ("auto:fast", "auto", "cpu", "gpu:fast", "gpu"):
                for data in ("folder", "pack", "tar", "shrunk"):
                    yield {"net": net, "decode": d, "data": data, "cores": cores}
            for loader in ("dataloader", "torchvision", "webdataset"):
                yield peer(loader, net=net, cores=cores)


PLANS = {"quick": quick, "full": full}


def wanted(a):
    seen = set()
    for line in PLANS[a.plan]():
        line = {**KEY, "batch": a.batch, "compile": a.compile, **line}
        if a.device == "cpu" and line["decode"].startswith(("gpu", "auto")):
            continue
        line["net"] = a.net if a.net and line["net"] != "none" else line["net"]
        line["cores"] = min(line["cores"], a.cores) if a.cores else line["cores"]
        if key(line) not in seen and re.search(a.only, name(line)):
            seen.add(key(line))
            yield line


# ---- a line ---------------------------------------------------------------------------------------------------------

def session_seconds():
    """CPU time of all processes of this session, which is this line's."""
    ticks, mine = 0, os.getsid(0)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as f:
                fields = f.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == mine:
            ticks += sum(map(int, fields[11:15]))  # with children that have ended
    return ticks / os.sysconf("SC_CLK_TCK")


class Stopwatch:
    """Time that the device spends between start and stop, summed up when nothing runs any more; lets the processor run
    ahead by two steps."""

    def __init__(self, device):
        self.cuda, self.pairs = device == "cuda", []

    def mark(self):
        if not self.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def add(self, start):
        self.pairs.append((start, self.mark()))
        if self.cuda and len(self.pairs) > 2:
            self.pairs[-3][1].synchronize()

    def take(self):
        """Seconds of each step since the last time."""
        if self.cuda:
            torch.cuda.synchronize()
        pairs, self.pairs = self.pairs, []
        return [b - a if not self.cuda else a.elapsed_time(b) / 1e3 for a, b in pairs]


def trainer(line, a):
    """A step of training; None: batches are only made."""
    if line["net"] == "none":
        return lambda x, y: None
    if line["net"] == "tiny":
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 7, 4), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
                                    torch.nn.Flatten(), torch.nn.Linear(8, 1000))
    else:
        model = getattr(torchvision.models, line["net"])(weights=None)
    model = model.to(a.device)
    fused = {"fused": True} if a.device == "cuda" else {}
    if line["net"].startswith("vit"):
        optimizer = torch.optim.AdamW(model.parameters(), 1e-4, **fused)
    else:
        model = model.to(memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(model.parameters(), .01, momentum=.9, **fused)
    last = not line["net"].startswith("vit")
    forward = torch.compile(model) if line["compile"] else model

    def step(x, y):
        x = x.contiguous(memory_format=torch.channels_last) if last else x.contiguous()
        with torch.autocast(a.device, torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(forward(x), y.long())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def forever(feeder):
    while True:
        got = 0
        for batch in feeder:
            got += 1
            yield batch
        if not got:
            raise RuntimeError("the loader gave no batch: fewer samples than a batch has?")


def window(batches, step, watch, seconds, count=10 ** 9):
    """Batches a second, and the seconds of the device for each."""
    n, began = 0, time.perf_counter()
    for x, y in batches:
        start = watch.mark()
        step(x, y)
        watch.add(start)
        n += 1
        if time.perf_counter() - began >= seconds or n >= count:
            break
    steps = watch.take()
    return n / (time.perf_counter() - began), steps


def warm_up(batches, step, watch, a, line):
    """Until the loader runs as it will: some seconds and steps; with a cache, an epoch."""
    least = 12 if a.device == "cuda" else 2
    if line["store"] == "slow+cache":
        least = max(least, distinct(a) // line["batch"] + 1)
    done, began = 0, time.perf_counter()
    while done < least or time.perf_counter() - began < a.warm:
        window(batches, step, watch, 0)
        done += 1


def distinct(a):
    with open(os.path.join(a.data, "about.json")) as f:
        return json.load(f)["files"]


def measure(line, a):
    torch.set_num_threads(1)
    if a.device == "cuda":
        torch.backends.cudnn.benchmark = True
        if line["first"]:
            torch.cuda.set_stream(torch.cuda.Stream(priority=-1))
    step, watch, out = trainer(line, a), Stopwatch(a.device), {}
    if line["net"] != "none":
        still = iter(FEEDERS["static"](line, a))
        window(still, step, watch, .5, 10)  # chooses kernels
        alone = [window(still, step, watch, a.seconds / 12) for _ in range(3)]
        out["limit"] = statistics.median(r for r, _ in alone) * line["batch"]
        alone_step = statistics.median(s for _, steps in alone for s in steps)
    cold = line["store"] == "cold"
    if cold:
        drop_pages(line, a)
    feeder = FEEDERS[line["loader"]](line, a)
    batches = forever(feeder)
    if cold:
        pieces, seconds, count = 1, 1e9, distinct(a) // line["batch"]
    else:
        warm_up(batches, step, watch, a, line)
        pieces, seconds, count = a.windows, a.seconds / a.windows, 10 ** 9
    cpu, began = session_seconds(), time.perf_counter()
    runs = [window(batches, step, watch, seconds, count) for _ in range(pieces)]
    wall = time.perf_counter() - began
    rates = sorted(r * line["batch"] for r, _ in runs)
    steps = [s for _, all_steps in runs for s in all_steps]
    out.update(images_s=statistics.median(rates), least=rates[0], most=rates[-1],
               cores_used=(session_seconds() - cpu) / wall, seconds=wall, images=len(steps) * line["batch"])
    if line["net"] != "none":
        out.update(waiting=max(0., 1 - sum(steps) / wall), gpu_taken=statistics.median(steps) / alone_step - 1,
                   step_ms=1e3 * statistics.median(steps), alone_ms=1e3 * alone_step)
    if hasattr(feeder, "about"):
        out["about"] = feeder.about()
    return out


def machine(a):
    with open("/proc/cpuinfo") as f:
        cpu = re.search(r"model name\s*: (.*)", f.read())
    return {"gpu": torch.cuda.get_device_name() if a.device == "cuda" else "none",
            "cpu": cpu.group(1) if cpu else "?", "torch": torch.__version__, "torchvision": torchvision.__version__,
            "side": a.side, "slow": a.slow, "spread": a.spread}


# ---- processes ------------------------------------------------------------------------------------------------------

def usable(a):
    """A process that was forked cannot use a GPU that its parent has touched, as some module may have on import."""
    if a.device != "cuda":
        return True
    try:
        torch.cuda.init()
    except Exception:  # also of a PyTorch without CUDA: the line will say so
        return False
    return True


def in_child(line, a, answer):
    if os.getsid(0) != os.getpid():
        os.setsid()
    os.sched_setaffinity(0, order_of(a.spread)[:line["cores"]])  # before any thread begins
    if not a.line and (a.fresh or not usable(a)):  # a new interpreter, which takes some seconds more
        os.set_inheritable(answer, True)
        os.execv(sys.executable, [sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--line",
                                  json.dumps(line), "--answer", str(answer)])
    sys.path[:0] = a.peers
    try:
        told = {**machine(a), **measure(line, a)}
    except BaseException as e:  # whatever a peer does
        told = {"failed": f"{type(e).__name__}: {e}"[:300]}
    os.write(answer, json.dumps(told).encode() + b"\n")
    os._exit(0)  # workers and threads end with it; nobody's farewell is waited for


def end_session(pid):
    """Whatever the line left behind. It made a session of its own."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run(line, a):
    """In a process that has its cores, and ends with its time. The answer fits a pipe."""
    mine, its = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.close(mine)
        in_child(line, a, its)
    os.close(its)
    os.set_blocking(mine, False)
    text, until = b"", time.time() + a.patience
    while not text.endswith(b"\n") and time.time() < until and os.waitpid(pid, os.WNOHANG)[0] == 0:
        time.sleep(.05)
        try:
            text += os.read(mine, 65536)
        except BlockingIOError:
            pass
    try:
        text += os.read(mine, 65536)
    except BlockingIOError:
        pass
    os.close(mine)
    end_session(pid)
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass
    if text.endswith(b"\n"):
        return json.loads(text)
    return {"failed": f"no answer within {a.patience:.0f} s" if time.time() >= until else "the process ended"}


def sentence(line, told):
    if "failed" in told:
        return f"{name(line)}: failed: {told['failed']}"
    text = f"{name(line)}: {told['images_s']:.0f} images/s [{told['least']:.0f}..{told['most']:.0f}]"
    if "limit" in told:
        text += (f", {100 * told['images_s'] / told['limit']:.1f} % of {told['limit']:.0f}, waiting "
                 f"{100 * told['waiting']:.0f} %, steps {100 * told['gpu_taken']:+.1f} %")
    return text + f", {told['cores_used']:.1f} cores"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("data", help="folder that bench/gpu/pictures.py made")
    p.add_argument("--results", default=os.path.join(HERE, "results", "feed.jsonl"))
    p.add_argument("--plan", choices=list(PLANS), default="quick")
    p.add_argument("--only", default="", metavar="PATTERN", help="lines whose name, as --list shows it, matches")
    p.add_argument("--list", action="store_true", help="lines that are missing, and end")
    p.add_argument("--again", action="store_true", help="lines that failed are run again")
    p.add_argument("--seconds", type=float, default=6, help="that a line is measured for")
    p.add_argument("--windows", type=int, default=6, help="of these seconds")
    p.add_argument("--warm", type=float, default=2, help="seconds before, at least")
    p.add_argument("--budget", type=float, default=1e9, help="seconds for all")
    p.add_argument("--patience", type=float, default=90, help="seconds for a line, after which it has failed")
    p.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    p.add_argument("--net", help="instead of the plan's networks; tiny: to try this script out")
    p.add_argument("--cores", type=int, help="no more than so many")
    p.add_argument("--spread", action="store_true", help="one processor of each core first, where two share one")
    p.add_argument("--batch", type=int, default=KEY["batch"])
    p.add_argument("--side", type=int, default=224)
    p.add_argument("--slow", default="bandwidth=300MB,latency=2ms", help="of the throttled store")
    p.add_argument("--compile", action="store_true", help="torch.compile the networks")
    p.add_argument("--fresh", action="store_true", help="a new interpreter for each line")
    p.add_argument("--line", help=argparse.SUPPRESS)  # of such an interpreter: what to run,
    p.add_argument("--answer", type=int, help=argparse.SUPPRESS)  # and where the answer goes
    p.add_argument("--peers", action="append", default=[], metavar="FOLDER", help="where peers are imported from")
    a = p.parse_args()
    if a.line:
        in_child(json.loads(a.line), a, a.answer)
    done = read_runs(a.results, key)
    left = [x for x in wanted(a) if key(x) not in done or (a.again and "failed" in done[key(x)])]
    if a.list:
        print("\n".join(map(name, left)) or "no line is missing")
        return
    began, took = time.time(), {}
    for i, line in enumerate(left):
        expect = took.get(line["net"], a.seconds + a.warm + 8)
        if time.time() - began + expect > a.budget:
            print(f"{len(left) - i} lines are missing")
            return
        start = time.time()
        told = run(line, a)
        took[line["net"]] = max(time.time() - start, took.get(line["net"], 0) * .8)
        add_run(a.results, {**line, **told})
        print(sentence(line, told) + f" ({time.time() - start:.0f} s)", flush=True)
    print("no line is missing")


if __name__ == "__main__":
    main()
