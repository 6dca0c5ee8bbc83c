"""How far a started program is, read from /proc: on a busy machine a second may be nothing."""

import os
import signal
import time


def wait_for(what, seconds=240):
    """Until what() is true; machines are slow at times, so no test asserts less."""
    until = time.time() + seconds
    while True:
        got = what()
        if got:
            return got
        if time.time() > until:
            raise AssertionError("waited in vain for " + what.__name__)
        time.sleep(0.05)


def catches(process, number=signal.SIGINT):
    """Has it set up what it does at Ctrl-C?"""
    with open(f"/proc/{process.pid}/status") as f:
        for line in f:
            if line.startswith("SigCgt:"):
                return int(line.split()[1], 16) >> (number - 1) & 1
    return False


def cpu_seconds(process):
    with open(f"/proc/{process.pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def interrupt(process, after=0.0):
    """Ctrl-C, once it would be heard and so many seconds of a processor were spent, or at the end."""

    def far_enough():
        return process.poll() is not None or (catches(process) and cpu_seconds(process) >= after)

    wait_for(far_enough, 300)
    process.send_signal(signal.SIGINT)
