"""Which processors share a core, for bench/gpu/feed.py and cpu_path.py."""
import os


def siblings(cpu):
    """Processors that share this one's core."""
    try:
        with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") as f:
            return f.read().strip()
    except OSError:
        return str(cpu)


def order_of(spread, cores=False):
    """Processors that may be used: as they are numbered, or first one of each core. With `cores`, the cores' names."""
    seen, order = {}, []
    for cpu in sorted(os.sched_getaffinity(0)):
        turn = seen[siblings(cpu)] = seen.get(siblings(cpu), -1) + 1
        order.append((turn if spread else 0, cpu))
    return list(seen) if cores else [cpu for _, cpu in sorted(order)]
