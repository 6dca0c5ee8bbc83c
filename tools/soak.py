#!/usr/bin/env python3
"""Jobs that join and leave one daemon for hours, some of them killed: does it stay what it was? Prints its
memory, descriptors and threads, and ends with 1 where the last third of the time has more of them than the
first third explains, or a job fails. Where root asks for it, every fourth job is another user's.

    tools/soak.py [--hours 1] [--jobs 3] [--every 60] --larder build/larder
"""
import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

STRANGER = 54329  # of no user on any machine
RECIPES = ["minio", "lru", "shade", "seneca", "icache", "rotate:h=0.5"]


def look(pid):
    """KiB of memory, descriptors and threads of a process."""
    with open(f"/proc/{pid}/status") as f:
        status = dict(line.split(":", 1) for line in f)
    return {
        "memory_kib": int(status["VmRSS"].split()[0]) - int(status["RssShmem"].split()[0]),
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "threads": int(status["Threads"]),
    }


class Jobs:
    """So many at a time, each of another recipe, data set and seed; every fifth is killed."""

    def __init__(self, larder, socket, count):
        self.larder, self.socket, self.count = larder, socket, count
        self.running, self.started, self.strange, self.done, self.killed, self.failed = [], 0, 0, 0, 0, []

    def start(self):
        n = self.started = self.started + 1
        data = f"mem:?n={2000 + n % 3 * 500}&h=8&w=8&c=3&seed={n % 3}"
        strange = os.geteuid() == 0 and n % 4 == 0
        job = subprocess.Popen(
            [self.larder, "train", data, "--cache", f"unix:{self.socket}?budget=20%", "--recipe",
             RECIPES[n % len(RECIPES)], "--epochs", "3", "--seed", str(n), "--test", "none", "--threads", "1", "--quiet"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/",
            **(dict(user=STRANGER, group=STRANGER, extra_groups=[]) if strange else {}))
        self.strange += strange
        job.kill_at = time.monotonic() + random.random() * 2 if n % 5 == 0 else None
        self.running.append(job)

    def turn(self, more=True):
        for job in list(self.running):
            if job.kill_at and time.monotonic() > job.kill_at and job.poll() is None:
                job.send_signal(signal.SIGKILL)
            if job.poll() is None:
                continue
            self.running.remove(job)
            self.done += job.returncode == 0
            self.killed += job.returncode == -signal.SIGKILL
            if job.returncode not in (0, -signal.SIGKILL):
                self.failed.append(job.stderr.read().decode()[-300:])
            job.stderr.close()
        while more and len(self.running) < self.count:
            self.start()


def verdict(seen):
    """What has grown: the most of the last third beyond the most of the first, with a little room."""
    third = max(1, len(seen) // 3)
    room = {"memory_kib": 1024, "descriptors": 0, "threads": 0}
    return [f"{name}: {before} at first, {after} at last" for name, spare in room.items()
            for before, after in [(max(s[name] for s in seen[:third]), max(s[name] for s in seen[-third:]))]
            if after > before + spare]


def quiet(daemon, jobs):
    """What the daemon is when nobody is attached: only that can be compared."""
    while jobs.running:
        jobs.turn(more=False)
        time.sleep(0.05)
    time.sleep(0.3)
    return look(daemon.pid)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--hours", type=float, default=1)
    p.add_argument("--jobs", type=int, default=3)
    p.add_argument("--every", type=float, default=60, help="seconds between two looks")
    p.add_argument("--larder", required=True)
    a = p.parse_args()
    a.larder = os.path.abspath(a.larder)
    random.seed(1)
    with tempfile.TemporaryDirectory() as folder:
        socket = os.path.join(folder, "s")
        mode = "666" if os.geteuid() == 0 else "600"
        os.chmod(folder, 0o711 if os.geteuid() == 0 else 0o700)
        daemon = subprocess.Popen(
            [a.larder, "serve", "--socket", socket, "--cache", "64MiB", "--mode", mode, "--quiet"],
            stdout=subprocess.DEVNULL)
        try:
            while not os.path.exists(socket):
                time.sleep(0.05)
            jobs, seen, end = Jobs(a.larder, socket, a.jobs), [], time.monotonic() + a.hours * 3600
            while time.monotonic() < end and not jobs.failed and daemon.poll() is None:
                until = min(end, time.monotonic() + a.every)
                while time.monotonic() < until:
                    jobs.turn()
                    time.sleep(0.02)
                seen.append(quiet(daemon, jobs))
                print(f"{jobs.done} jobs done, {jobs.killed} killed; {jobs.strange} were another user's:",
                      seen[-1], flush=True)
            grown = verdict(seen[1:] if len(seen) > 3 else seen)  # what is made once is made at first
            if daemon.poll() is not None:
                grown.append(f"the daemon ended with {daemon.returncode}")
        finally:
            for job in jobs.running:
                job.kill()
            daemon.terminate()
            daemon.wait()
    print("\n".join(grown + jobs.failed) or "flat")
    return 1 if grown or jobs.failed else 0


if __name__ == "__main__":
    sys.exit(main())
