"""larder serve as people use it: jobs share one cache; whoever is killed, the others go on."""
import contextlib
import json
import operator
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

LARDER = os.environ["LARDER"]
N, SIDE = 2000, 28


def write_idx(folder):
    """A small data set: noise with a bright bar whose place is the class."""
    import random
    rng = random.Random(1)
    for part, n in (("train", N), ("t10k", 200)):
        labels = bytes(i % 10 for i in range(n))
        pixels = bytearray(rng.randbytes(n * SIDE * SIDE))
        for i in range(n):
            at = i * SIDE * SIDE + labels[i] * 2 * SIDE
            pixels[at:at + 2 * SIDE] = b"\xff" * (2 * SIDE)
        with open(f"{folder}/{part}-images-idx3-ubyte", "wb") as f:
            f.write(struct.pack(">IIII", 0x803, n, SIDE, SIDE) + pixels)
        with open(f"{folder}/{part}-labels-idx1-ubyte", "wb") as f:
            f.write(struct.pack(">II", 0x801, n) + labels)


def wait_for(what, seconds=240):
    until = time.time() + seconds
    while time.time() < until:
        got = what()
        if got:
            return got
        time.sleep(0.02)
    raise AssertionError(f"waited {seconds} s in vain for {what.__name__}")


started = []  # processes of this test
alone = []  # what was said of jobs or daemons that did not come to answer for seconds, as on a busy machine


class Daemon:
    def __init__(self, path, *args):
        self.path = path
        self.p = subprocess.Popen([LARDER, "serve", "--socket", path, *args],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(self.p)
        first = self.p.stdout.readline()
        assert "serves" in first, first + self.p.stderr.read()

    def status(self):
        """Asked again while it does not come to answer: a machine with other work may keep it from that for seconds."""
        while True:
            p = subprocess.run([LARDER, "serve", "--status", "--socket", self.path], capture_output=True, text=True)
            if p.returncode == 0:
                return json.loads(p.stdout)
            assert "does not answer" in p.stderr, p.stderr

    def end(self, how=signal.SIGTERM):
        if self.p.poll() is None:
            self.p.send_signal(how)
        self.p.communicate(timeout=240)
        return self.p.returncode


@contextlib.contextmanager
def serving(folder, *args):
    d = Daemon(f"{folder}/s", *args)
    try:
        yield d
    finally:
        alone.extend("a job was silent for seconds" for s in d.status()["data_sets"] if s["overdue"])
        d.end()


def job(folder, path, *args, epochs=3):
    p = subprocess.Popen(
        [LARDER, "train", folder, "--cache", f"unix:{path}", "--recipe", "minio", "--epochs",
         str(epochs), "--json", "--quiet", "--batch", "32", *args],  # later options win
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    started.append(p)
    return p


def heard(err):
    alone.extend(line for line in err.splitlines() if "does not answer" in line)


def finish(p, code=0):
    out, err = p.communicate(timeout=240)
    heard(err)
    assert p.returncode == code, f"exit {p.returncode}: {err}"
    return [json.loads(line) for line in out.splitlines()]


def ran(*args, **more):
    p = subprocess.run([LARDER, *args], capture_output=True, text=True, timeout=240, **more)
    heard(p.stderr)
    return p


ENDLESS = 100000  # epochs of jobs that go on until they are told: none is through before another has begun


def far(d, jobs, epochs):
    """All are there, and so many epochs on; the epochs they were in when all were there."""
    def at():
        there = {j["pid"]: j["epoch"] for j in d.status()["jobs"]}
        return [there[p.pid] for p in jobs] if all(p.pid in there for p in jobs) else None
    met = wait_for(at)
    wanted = [epoch + epochs for epoch in met]
    wait_for(lambda: all(map(operator.ge, at() or [-1], wanted)))
    return met


def stop(jobs, whole=True):
    """Ctrl-C; the epochs of each, of which the last is cut short."""
    for p in jobs:
        p.send_signal(signal.SIGINT)
    runs = [finish(p, 130) for p in jobs]
    for r in runs if whole else ():
        check_whole(r[:-1], len(r) - 1)
    return runs


@contextlib.contextmanager
def held_up(*jobs):
    """Meanwhile they do not come to their end."""
    for p in jobs:
        p.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for p in jobs:
            p.send_signal(signal.SIGCONT)


def check_whole(epochs, count):
    assert len(epochs) == count
    for e in epochs:
        assert e["served"] == N and e["touched"] == 1 and e["repeats"] == 0, e
        assert e["hits"] + e["misses"] == N, e


def test_shared(folder):
    with serving(folder, "--cache", "64MiB") as d:
        jobs = [job(folder, d.path, "--seed", str(s)) for s in range(3)]
        runs = [finish(p) for p in jobs]
        for r in runs:
            check_whole(r, 3)
        (data_set,) = wait_for(lambda: [s for s in d.status()["data_sets"] if s["jobs"] == 0])
        assert data_set["misses"] == N, data_set  # every sample was read once for all three
        assert data_set["leases"] == 0 and data_set["leased_bytes"] == 0
        again = finish(job(folder, d.path, "--seed", "9", epochs=1))
        assert again[0]["hits"] == N and again[0]["storage_bytes"] == 0
        alone = finish(job(folder, "", "--seed", "0", "--cache", "64MiB"))
        assert [e["accuracy"] for e in alone] == [e["accuracy"] for e in runs[0]], "another order"


def seneca(folder, path, budget, seed, *args, recipe="seneca", epochs=4):
    return job(folder, f"{path}?budget={budget}", "--recipe", recipe, "--seed", str(seed), *args,
               epochs=epochs)


def test_seneca(folder):
    """Opportunistic sampling: storage is asked about once for all jobs, each sees all once."""
    with serving(folder, "--cache", "64MiB") as d:
        jobs = [seneca(folder, d.path, "20%", s, "--slow", "bandwidth=2MiB", epochs=ENDLESS) for s in range(3)]
        far(d, jobs, 3)
        runs = stop(jobs)
        reads = sum(e["storage_bytes"] for r in runs for e in r) / (SIDE * SIDE)
        served = sum(e["served"] for r in runs for e in r)
        assert reads < 0.8 * served, (reads, served)  # as without sharing at best; how much less depends on who is faster
        (data_set,) = wait_for(lambda: [s for s in d.status()["data_sets"] if s["jobs"] == 0])
        assert data_set["policy"] == "ods" and data_set["leases"] == 0 and data_set["leased_bytes"] == 0


def test_seneca_forms(folder):
    with serving(folder, "--cache", "64MiB") as d:
        jobs = [seneca(folder, d.path, "60%", s, recipe="seneca:split=20/40/40") for s in range(2)]
        jobs.append(seneca(folder, d.path, "60%:20/40/40", 7))
        runs = [finish(p) for p in jobs]
        for r in runs:
            check_whole(r, 4)
        (data_set,) = wait_for(lambda: [s for s in d.status()["data_sets"] if s["jobs"] == 0])
        assert data_set["leases"] == 0 and data_set["leased_bytes"] == 0
        other = finish(seneca(folder, d.path, "20%", 1, epochs=1))  # encoded: a data set of its own
        check_whole(other, 1)
        assert len(d.status()["data_sets"]) == 2
        assert "disagree" in says("train", folder, "--epochs", "1", "--quiet", "--recipe",
                                  "seneca:split=100/0/0", "--cache",
                                  f"unix:{d.path}?budget=9%:20/40/40")


def test_seneca_plans(folder):
    """plan=auto: the daemon plans for all jobs from what they measure; each still sees all once."""
    with serving(folder, "--cache", "64MiB") as d:
        jobs = [seneca(folder, d.path, "30%", s, "--slow", "bandwidth=3MiB",
                       recipe="seneca:plan=auto", epochs=ENDLESS) for s in range(2)]
        told = wait_for(lambda: [j for j in d.status()["jobs"] if j["training_rate"]])
        assert told[0]["training_rate"] > 0
        far(d, jobs, 3)
        stop(jobs)
        (data_set,) = wait_for(lambda: [s for s in d.status()["data_sets"] if s["jobs"] == 0])
        assert sum(map(int, data_set["plan_split"].split("/"))) == 100 and data_set["leases"] == 0


def test_seneca_killed(folder):
    """Jobs and the daemon are killed; those that live see every sample once an epoch."""
    path = f"{folder}/s"
    slow = ("--slow", "bandwidth=3MiB")
    d = Daemon(path, "--cache", "64MiB")
    *jobs, victim = (seneca(folder, path, "30%", s, *slow, recipe="seneca:split=50/25/25", epochs=ENDLESS) for s in (0, 1, 9))
    far(d, [*jobs, victim], 1)
    with held_up(*jobs):
        victim.kill()
        victim.communicate()
        wait_for(lambda: victim.pid not in [j["pid"] for j in d.status()["jobs"]])
        d.end(signal.SIGKILL)
        d = Daemon(path, "--cache", "64MiB")
    far(d, jobs, 2)  # they have come back to it
    stop(jobs)
    d.end()


def test_rotate_stream(folder):
    """One stream of fresh samples: who comes later goes on where the other is."""
    with serving(folder, "--cache", "64MiB") as d:
        slow = ("--slow", "bandwidth=1MiB")
        jobs = [seneca(folder, d.path, "30%", s, *slow, recipe="rotate:h=0.5", epochs=ENDLESS) for s in range(2)]
        met = far(d, jobs, 3)
        runs = stop(jobs, whole=False)
        runs = [r[epoch + 1:] for r, epoch in zip(runs, met)]  # one began before the other, and read alone
        fresh = sum(e["served"] - e["repeats"] for r in runs for e in r)
        reads = sum(e["storage_bytes"] for r in runs for e in r) / (SIDE * SIDE)
        assert reads < 0.9 * fresh, (reads, fresh)  # 0.95 where one comes after the other has gone


def test_spider_hubs(folder):
    """Hubs are named to the daemon, which serves them in place of what is missing."""
    recipe = "spider:scoring=wait,degree=20,ratio=0.5,ratio_end=0.5,guard=0"
    with serving(folder, "--cache", "64MiB") as d:
        far = [finish(job(folder, f"{d.path}?budget=15%", "--recipe", recipe, "--seed", str(s), *wire))
               for s, wire in ((1, ()), (2, ("--threads", "2")))]
        (data_set,) = wait_for(lambda: [s for s in d.status()["data_sets"] if s["jobs"] == 0])
        assert data_set["leases"] == 0, data_set
    near = finish(job(folder, "", "--recipe", recipe, "--seed", "1", "--cache", "15%"))
    assert near[-1]["substitutes"] > 0, near[-1]
    for run in far:
        assert all(e["served"] == N for e in run)
        assert run[-1]["substitutes"] > 0, run[-1]


def test_environment(folder):
    with serving(folder, "--cache", "64MiB") as d:
        env = dict(os.environ, LARDER_SOCKET=d.path)
        p = ran("train", folder, "--recipe", "lru", "--cache", "50%", "--epochs", "1", "--json", "--quiet", env=env)
        assert p.returncode == 0, p.stderr
        (data_set,) = [s for s in d.status()["data_sets"] if s["samples"] == N]
        assert data_set["budget_bytes"] == N * SIDE * SIDE // 2 and data_set["policy"] == "lru"


def test_no_room_by_environment(folder):
    """The environment is a wish: a daemon that is full must not stop a job that never named it."""
    with serving(folder, "--cache", "100KiB") as d:
        env = dict(os.environ, LARDER_SOCKET=d.path)
        p = ran("train", folder, "--cache", "90%", "--epochs", "1", "--json", "--quiet", env=env)
        assert p.returncode == 0, p.stderr
        assert [s for s in d.status()["data_sets"] if s["samples"] == N] == []


def test_client_killed(folder):
    with serving(folder, "--cache", "4MiB") as d:
        pids = lambda: [j["pid"] for j in d.status()["jobs"]]
        other = job(folder, d.path, "--seed", "1", "--slow", "bandwidth=2MiB", epochs=4)
        wait_for(lambda: d.status()["data_sets"])
        for _ in range(3):
            p = job(folder, d.path, "--seed", "2", "--slow", "bandwidth=1MiB", epochs=100000)
            wait_for(lambda: p.pid in pids())
            time.sleep(0.2)
            p.kill()
            p.communicate()
            wait_for(lambda: p.pid not in pids())
        check_whole(finish(other), 4)
        s = wait_for(lambda: [s for s in d.status()["data_sets"] if s["jobs"] == 0])[0]
        assert s["leases"] == 0 and s["leased_bytes"] == 0


def test_client_stuck(folder):
    with serving(folder, "--cache", "64MiB") as d:
        stuck = job(folder, d.path, "--seed", "2", "--slow", "bandwidth=1MiB", epochs=100000)
        wait_for(lambda: d.status()["jobs"])
        time.sleep(0.2)
        stuck.send_signal(signal.SIGSTOP)
        check_whole(finish(job(folder, d.path, "--seed", "1", epochs=2)), 2)
        stuck.kill()
        stuck.communicate()


def test_daemon_killed(folder):
    path = f"{folder}/s"
    d = Daemon(path, "--cache", "64MiB")
    p = job(folder, path + "?budget=20%", "--seed", "1", "--slow", "bandwidth=3MiB", epochs=ENDLESS)
    far(d, [p], 1)
    with held_up(p):
        d.end(signal.SIGKILL)
        d = Daemon(path, "--cache", "64MiB")  # the socket's file is still there
    far(d, [p], 1)  # it has come back to it
    stop([p])
    assert d.end() == 0
    assert not os.path.exists(path) and not os.path.exists(path + ".lock")


def test_daemon_gone_for_good(folder):
    d = Daemon(f"{folder}/s", "--cache", "64MiB")
    p = job(folder, d.path, "--seed", "1", "--slow", "bandwidth=3MiB", epochs=3)
    wait_for(lambda: d.status()["data_sets"])
    d.end(signal.SIGKILL)
    check_whole(finish(p), 3)
    os.unlink(d.path)


def refused(path, stream):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        s.settimeout(60)
        answer = b""
        with contextlib.suppress(BrokenPipeError):  # it has answered and gone: too many were there
            s.sendall(stream)
            s.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            while piece := s.recv(65536):
                answer += piece
        return answer


def test_strangers(folder):
    with serving(folder, "--cache", "64MiB", "--clients", "300") as d:
        assert b"larder's protocol" in refused(d.path, b"GET / HTTP/1.0\r\n\r\n" * 10)
        wrong = struct.pack("<IHHIII", 12, 1, 0, 0x4452414C, 77, 77)
        assert b"use one larder" in refused(d.path, wrong)
        assert b"not a larder client" in refused(d.path, struct.pack("<IHHIII", 12, 1, 0, 5, 1, 1))
        assert b"hello" in refused(d.path, struct.pack("<IHH", 0, 144, 0))
        refused(d.path, struct.pack("<IHH", 1000, 1, 0) + b"cut off")
        held = []
        for _ in range(1000):
            s = socket.socket(socket.AF_UNIX)
            s.connect(d.path)
            held.append(s)
        assert b"too many connections" in refused(d.path, b"")
        for s in held:
            s.close()
        wait_for(lambda: refused(d.path, wrong) and True)
        check_whole(finish(job(folder, d.path, epochs=1)), 1)


def says(*args, env=None, code=(1, 2)):
    p = ran(*args, env=env)
    assert p.returncode in code, f"{args}: exit {p.returncode}: {p.stderr}"
    return p.stderr


def test_unreadable(folder):
    """Another user does not come to see files that it cannot open, not by being the first either."""
    if os.geteuid() != 0:
        print("skipped: only root can be two users")
        return
    n, uid = 120, 54329  # of no user on any machine
    photos = [f"{folder}/photos/{i % 2}/{i:03}.pgm" for i in range(n)]
    for i, name in enumerate(photos):
        os.makedirs(os.path.dirname(name), exist_ok=True)
        with open(name, "wb") as f:
            f.write(b"P5 8 8 255\n" + bytes([i]) * 64)
    os.chmod(folder, 0o755)

    def shut(some):
        for i, name in enumerate(photos):
            os.chmod(name, 0o600 if i < some else 0o644)

    def train(who):
        run = {} if who == 0 else dict(user=who, group=who, extra_groups=[])
        p = ran("train", f"{folder}/photos", "--recipe", "minio", "--epochs", "1", "--json", "--batch", "30", "--test", "none",
                "--on-bad", "skip", "--cache", f"unix:{folder}/s", cwd=folder, **run)
        assert p.returncode == 0, p.stderr
        return json.loads(p.stdout.splitlines()[-1]), p.stderr

    for first in (uid, 0):  # whoever came first
        shut(n // 2)
        with serving(folder, "--cache", "16MiB", "--mode", "666"):
            train(first)
            train(0)
            got, _ = train(uid)
            assert got["served"] == n // 2 and got["hits"] == (n // 2 if first else 0), got
    shut(0)
    with serving(folder, "--cache", "16MiB", "--mode", "666"):
        got, _ = train(0)
        assert got["misses"] == n and got["background_reads"] == 32, got  # which it was asked for
        got, told = train(uid)
        assert got["hits"] == n and "--share-data" not in told, (got, told)


def test_wrong_use(folder):
    path = f"{folder}/s"
    train = ["train", folder, "--epochs", "1", "--quiet", "--cache"]
    assert "is larder serve running there?" in says(*train, f"unix:{path}?wait=0&absent=fail")
    assert "is larder serve running there?" in says("serve", "--status", "--socket", path)
    assert "budget" in says(*train, f"unix:{path}?bugdet=3")
    assert "this process may use" in says("serve", "--socket", path, "--cache", "900TiB")
    assert "through Redis" in says("serve", "--socket", path, "--tcp", "127.0.0.1:0")
    assert "through Redis" in says(*train, "tcp://127.0.0.1:7070?token-file=x")
    assert "octal" in says("serve", "--socket", path, "--mode", "rw")
    assert "107" in says(*train, "unix:/" + "x" * 200)
    with open(path, "w") as f:
        f.write("precious")
    assert "no socket" in says("serve", "--socket", path)
    assert open(path).read() == "precious"
    os.unlink(path)
    with serving(folder, "--cache", "1MiB", "--mode", "640") as d:
        assert os.stat(path).st_mode & 0o777 == 0o640
        assert "another daemon" in says("serve", "--socket", path)
        assert "larger --cache" in says(*train, f"unix:{path}?budget=900MiB")
        assert "cannot be shared" in says("train", folder, "--recipe", "nopfs", "--epochs", "1",
                                          "--quiet", "--cache", f"unix:{path}")
        wait_for(lambda: d.status()["jobs"] == [])


def test_another_cache_holds(folder):
    """Who came first has decided: the others are told, once."""
    with serving(folder, "--cache", "64MiB"):
        train = ["train", folder, "--epochs", "2", "--quiet", "--json"]
        for recipe, budget, notes in (("minio", "20%", 0), ("minio", "20%", 0), ("seneca", "40%", 2)):
            q = ran(*train, "--recipe", recipe, "--cache", f"unix:{folder}/s?budget={budget}")
            assert q.returncode == 0, q.stderr
            assert len(q.stderr.splitlines()) == notes, q.stderr
        assert "larder train: this data set's cache in the daemon is ruled by minio" in q.stderr
        assert "not the 40% that this one asks for" in q.stderr


def test_usual_place(folder):
    """Without XDG_RUNTIME_DIR: in a folder that only its user can enter. And of another user only the
    daemon that was named."""
    if os.geteuid() != 0:
        print("test_usual_place: skipped, only root can be two users")
        return
    uid = 2000000 + os.getpid()
    own = f"/tmp/larder-{uid}"
    env = {k: v for k, v in os.environ.items() if k not in ("LARDER_SOCKET", "XDG_RUNTIME_DIR")}
    run = dict(env=env, user=uid, group=uid, extra_groups=[])
    os.chmod(folder, 0o755)
    p = subprocess.Popen([LARDER, "serve", "--cache", "32MiB", "--mode", "666"], stdout=subprocess.PIPE, text=True, **run)
    try:
        assert f"{own}/larder.sock" in p.stdout.readline()
        assert os.stat(own).st_mode & 0o777 == 0o700 and os.stat(own).st_uid == uid
        q = ran("serve", "--status", **run)
        assert q.returncode == 0 and json.loads(q.stdout)["jobs"] == [], q.stderr
        train = ["train", folder, "--recipe", "minio", "--epochs", "1", "--quiet", "--cache"]
        q = ran(*train, "unix:", **run)
        assert q.returncode == 0, q.stderr
        path = f"{own}/larder.sock"
        for args in (["serve", "--status", "--socket", path], [*train, f"unix:{path}"]):
            assert all(word in says(*args) for word in ("?owner=", "--owner ")), args
        assert "?owner=" in says(*train, "20%", env={"LARDER_SOCKET": path})
        for args, more in ((["serve", "--status", "--socket", path, "--owner", str(uid)], {}),
                           ([*train, f"unix:{path}?owner={uid}"], {}),
                           ([*train, "20%"], {"LARDER_SOCKET": f"{path}?owner={uid}"})):
            q = ran(*args, env=dict(env, **more))
            assert q.returncode == 0, q.stderr
    finally:
        p.terminate()
        p.wait()
        p.stdout.close()
        os.rmdir(own)
    os.symlink(folder, own)
    try:
        for args in (["serve"], ["serve", "--status"]):
            q = ran(*args, **run)
            assert q.returncode == 2 and f"{own} is not a folder of yours" in q.stderr, q.stderr
    finally:
        os.unlink(own)


def play(name, test):
    """Again where a job had to do without its daemon meanwhile, or others without it: they are right to, and it is
    another experiment."""
    while True:
        started.clear()
        alone.clear()
        try:
            with tempfile.TemporaryDirectory(prefix="larder-serve-") as folder:
                write_idx(folder)
                return test(folder)
        except (AssertionError, ValueError):
            if not alone:
                raise
            print(f"{name}: again; {alone[0]}", flush=True)
        finally:
            for p in started:
                if p.poll() is None:
                    p.kill()
                    p.wait()


def main():
    before = set(os.listdir("/dev/shm"))
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            began = time.time()
            play(name, test)
            print(f"{name}: {time.time() - began:.1f} s", flush=True)
    # Shared memory is a file there; folders are of other tests, which run meanwhile.
    left = {x.name for x in os.scandir("/dev/shm") if "larder" in x.name and not x.is_dir()} - before
    assert not left, f"left behind in /dev/shm: {left}"


if __name__ == "__main__":
    sys.exit(main())
