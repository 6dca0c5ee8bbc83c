"""Under ulimit -v, however small: the program ends, either done or with a sentence. It never hangs."""
import os
import re
import signal
import subprocess
import tempfile

LARDER = os.environ["LARDER"]
DATA = "mem:?n=200&h=16&w=16&c=3"


def limited(kib, *args):
    """One that hangs asks for memory all the time: processor time ends it, which a busy machine does not."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OPENBLAS", "OMP"))}
    p = subprocess.run(["bash", "-c", f'ulimit -v {kib} -t 20 && exec "$0" "$@"', LARDER, *args], env=env,
                       capture_output=True, text=True)
    assert p.returncode not in (-signal.SIGXCPU, -signal.SIGKILL), f"{args} hangs with {kib} KiB"
    return p.returncode, p.stdout, p.stderr


def main():
    if sanitized():
        print("skipped: a sanitizer has its own address space")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        rows = os.path.join(folder, "rows")
        with open(rows, "w") as f:
            f.writelines(f"{i % 2} 1:{i % 7} 2:{i * i % 11}\n" for i in range(200))
        done = 0
        for kib in (70_000, 100_000, 150_000, 200_000, 300_000, 400_000, 600_000, 1_000_000, 8_000_000):
            for args in (["--version"], ["train", DATA, "--epochs", "1", "--test", "none", "--quiet"],
                         ["train", DATA, "--epochs", "1", "--test", "none", "--quiet", "--net-threads", "3"],
                         ["svm-train", "-q", rows, os.path.join(folder, "model")]):
                code, out, err = limited(kib, *args)
                if re.search("shared librar|cannot allocate memory|blas_thread_init", err, re.I):
                    continue  # not even loaded, and that is said
                assert code in (0, 1), (kib, args, code, out, err)
                assert code == 0 or re.search(r"memory|MiB|thread|resource", err, re.I), (kib, args, err)
                done += code == 0
                print(kib, args[0], code, err.strip()[:150])
        assert done >= 12, done  # with 600 MB and more there is no reason to give up
        # The fewer processors the fewer buffers OpenBLAS wants, and it believed that there was room for them.
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        for kib in range(260_000, 500_000, 20_000):
            code, out, err = limited(kib, "train", DATA, "--epochs", "1", "--test", "none", "--quiet")
            assert code == 0, (kib, code, out, err)
    return 0


def sanitized():
    p = subprocess.run(["grep", "-c", "__asan_init\\|__tsan_init", LARDER], capture_output=True, text=True)
    return p.stdout.strip() not in ("", "0")


if __name__ == "__main__":
    raise SystemExit(main())
