"""What README, the questions and the guides tell to type: found in their blocks, and typed in a shell, in a folder that
has what they speak of."""

import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tarfile

import web_kit
from ports import free_port

# What begins a block of commands; others are shown.
TYPED = re.compile(r"\$ |(sudo |LARDER_\w+=\S+ )?(build/larder|larder|make|python3?|env/bin/\w+|pip|redis-server|eval|export|echo|"
                   r"printf|apt-get|systemctl|adduser|podman|git|cd)\b")
SHOWN = re.compile(r"\s|scrape_configs:|\w+: of a step's time ")

# Not typed by a test of the pages, and why. A line that stands for nothing any more is an error.
NOT_TYPED = [
    (r"^make( |$)(?!-C)|^\S*python3? -m larder demo", "builds, tests or trains all there is: .ci/run does"),
    (r"\bsudo\b|^apt-get |^podman ", "changes the machine"),
    (r"^python3 -m venv|\bpip install|^git clone|^cd ", "fetches or installs larder itself, test_wheel_long does"),
    (r"/run/larder/socket", "wants the service of an installed package"),
    (r"\baws\b|=SIGNED|profile=larder", "wants Amazon's own command and account; test_web_credentials has a made one"),
    (r"s3://open-data/", "wants Amazon itself"),
    (r"--device cuda", "wants a GPU"),
    (r"examples/hnsw", "compiles C++, test_hnsw_plugin_long does"),
    (r"^redis-server ", "the test has one of its own, at another port"),
]


class Block:
    def __init__(self, page, line, info, lines):
        self.page, self.line, self.info, self.lines = page, line, info, lines

    def is_typed(self):
        return self.info in ("", "sh") and bool(self.lines) and TYPED.match(self.lines[0]) is not None

    def is_shown(self):
        return self.info not in ("", "sh") or not self.lines or SHOWN.match(self.lines[0]) is not None

    def commands(self):
        """(command, lines shown as its output)"""
        text = "\n".join(self.lines).replace("\\\n", " ").split("\n")
        if not any(line.startswith("$ ") for line in text):
            return [(line, []) for line in text if line.strip()]
        found = []
        for line in text:
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif line.strip():
                found[-1][1].append(line)
        return found


def blocks(page, text):
    lines, at = text.split("\n"), 0
    while at < len(lines):
        fence = re.match(r"```(.*)$", lines[at])
        if fence:
            end = at + 1
            while lines[end] != "```":
                end += 1
            yield Block(page, at + 2, fence[1].split(" ")[0], lines[at + 1:end])
            at = end
        at += 1


def pages(root):
    found = ["README.md"]
    for folder in ("docs/questions", "docs/guide"):
        found += sorted(f"{folder}/{name}" for name in os.listdir(root / folder) if name.endswith(".md"))
    return {page: list(blocks(page, (root / page).read_text(encoding="utf-8"))) for page in found}


def why_not(command):
    return next((why for pattern, why in NOT_TYPED if re.search(pattern, command)), None)


WRAPPER = r"""#!/bin/bash
# The program as it is, with options that make it end soon.
command= skip= more=()
for word; do
    if [ "$skip" ]; then skip=; elif [ "$word" = --plugin ]; then skip=1; elif [ ! "$command" ]; then command=$word; fi
done
case $command in
train) more=(--epochs "$TYPED_EPOCHS") && case "$*" in *--slow*) more+=(--slow bandwidth=1GiB) ;; esac ;;
profile) more=(--seconds 0.2) ;;
suggest) case "$*" in *.tape*) ;; *) more=(--seconds 0.2) ;; esac ;;
doctor) more=(--seconds 0) ;;
top) more=(--once) ;;
serve)
    case "$*" in
    *--status*) for _ in $(seq 600); do "$TYPED_LARDER" "$@" >/dev/null 2>&1 && break || sleep 0.1; done ;;
    esac ;;
dash)
    "$TYPED_LARDER" "$@" --http 127.0.0.1:0 >dash.out &
    for _ in $(seq 600); do [ -s dash.out ] || sleep 0.1; done
    kill -INT $!
    wait $! || [ $? = 130 ]
    exit ;;
esac
exec "$TYPED_LARDER" "$@" "${more[@]}"
"""

# Jobs that were sent to the background have to end well; a daemon is told to end.
AFTER = """
for job in $(jobs -p); do [ "$job" = "$serve" ] || wait "$job"; done
if [ "$serve" ]; then kill -INT "$serve" && { wait "$serve" || true; }; fi
"""


class Place:
    """A folder with the data that pages speak of, servers that stand for those of the world, and a shell."""

    def __init__(self, folder, root, larder, epochs=1):
        self.folder, self.root, self.larder = folder, root, larder
        self.redis = None
        for name in ("bin", "run", "home/.aws", "nvme"):
            (folder / name).mkdir(parents=True)
        os.chmod(folder / "run", 0o700)
        self.web = web_kit.Server(folder)
        self.s3 = web_kit.Server(folder, s3=True, bucket="bucket")
        self.data = web_kit.Server(folder, s3=True, bucket="data")
        (folder / "home/.aws/config").write_text(
            f"[default]\nregion = us-east-1\nendpoint_url = http://127.0.0.1:{self.s3.port}\n")
        self.program("larder", WRAPPER)
        self.program("python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        library = os.path.join(os.path.dirname(larder), "liblarder.so")
        self.env = web_kit.environment(
            str(folder / "home"), PATH=f"{folder}/bin:{os.environ['PATH']}", XDG_RUNTIME_DIR=str(folder / "run"),
            AWS_ACCESS_KEY_ID=web_kit.KEY, AWS_SECRET_ACCESS_KEY=web_kit.SECRET, TYPED_LARDER=larder,
            TYPED_EPOCHS=str(epochs), PYTHONPATH=str(root / "python"), LARDER_LIBRARY=library, LARDER=larder)
        self.env.pop("LARDER_SOCKET", None)

    def program(self, name, text):
        path = self.folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def close(self):
        for server in (self.web, self.s3, self.data):
            server.close()
        if self.redis:
            self.redis.terminate()
            self.redis.wait()

    def redis_port(self):
        if not self.redis:
            self.port = free_port()
            self.redis = subprocess.Popen(["redis-server", "--port", str(self.port), "--save", "", "--dir",
                                           str(self.folder)], stdout=subprocess.DEVNULL)
        return self.port

    def here(self, command):
        """The command with places of this folder for those of the page."""
        command = re.sub(r"\b\d+GiB\b", "64MiB", command.replace("build/larder", "larder"))
        if re.match(r"larder serve (?!.*--status)[^&]*$", command):
            command = re.sub(r" *(#.*)?$", " &", command, count=1)  # it serves until it is told to end
        if re.match(r"larder serve .*&$", command):
            command += "\nserve=$!"
        for theirs, ours in (("/nvme/", f"{self.folder}/nvme/"), ("/scratch/photos", f"{self.folder}/photos"),
                             ("http://host/", f"http://127.0.0.1:{self.web.port}/"),
                             ("127.0.0.1:9000", f"127.0.0.1:{self.data.port}")):
            command = command.replace(theirs, ours)
        return re.sub(r"redis://(localhost|store):6379", lambda _: f"redis://127.0.0.1:{self.redis_port()}", command)

    def type(self, commands, seconds=200):
        """All of them in one shell; its output, or what went wrong."""
        script = "\n".join(["set -eo pipefail", "serve=", *(self.here(c) for c in commands), AFTER])
        shell = subprocess.Popen(["bash", "-c", script], cwd=self.folder, env=self.env, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            out = shell.communicate(timeout=seconds)[0].decode("utf-8", "replace")
        finally:
            try:
                os.killpg(shell.pid, signal.SIGKILL)  # a daemon, where the shell did not come to its end
            except ProcessLookupError:
                pass
        assert shell.returncode == 0, f"{script}\n{out}"
        return out


def make_pictures(folder, each=60):
    from PIL import Image

    rng = random.Random(1)
    for part, n in (("train", each), ("val", 5)):
        for name in ("cats", "dogs"):
            here = folder / "photos" / part / name
            here.mkdir(parents=True)
            for i in range(n):
                small = Image.frombytes("RGB", (8, 6), bytes(rng.randrange(256) for _ in range(144)))
                small.resize((160 + i, 120), Image.BICUBIC).save(here / f"{i}.jpg", quality=90)


def make_tables(folder):
    rng = random.Random(2)
    (folder / "shards").mkdir()
    for i in range(100):
        with tarfile.open(folder / f"shards/train-{i:03}.tar", "w") as tar:
            tar.add(folder / "photos/train/cats/0.jpg", f"{i:06}.jpg")
    (folder / "x.bin").write_bytes(bytes(4 * 3 * 32 * 32 * 4))
    (folder / "tokens.bin").write_bytes(struct.pack("<4096H", *(rng.randrange(65536) for _ in range(4096))))
    (folder / "houses.csv").write_text("rooms,area,town,price\n3,70.5,Ulm,200\n4,90,Bonn,310\n2,40,Ulm,150\n")
    (folder / "index.csv").write_text("file,offset,length,label\nx.bin,0,100,0\nx.bin,100,50,1\n")
    for name, n in (("train.txt", 200), ("test.txt", 50), ("a9a", 200), ("mnist", 50), ("mnist.t", 50)):
        with open(folder / name, "w", encoding="ascii") as f:
            for _ in range(n):
                x, y = rng.random(), rng.random()
                f.write(f"{1 if x + 0.1 * y > 0.5 else -1} 1:{x:.3f} 2:{y:.3f}\n")


def make_arrays(folder):
    import h5py
    import numpy

    x, y = numpy.zeros((20, 8), "f4"), numpy.arange(20) % 2
    numpy.save(folder / "x.npy", x)
    numpy.save(folder / "y.npy", y)
    with h5py.File(folder / "data.h5", "w") as f:
        f["images"], f["labels"] = x, y


def make_digits(folder):
    """As docs/questions/train-an-svm.md has them."""
    from sklearn.datasets import dump_svmlight_file, load_digits

    x, y = load_digits(return_X_y=True)
    dump_svmlight_file(x[:1200], y[:1200], str(folder / "train.txt"), zero_based=False)
    dump_svmlight_file(x[1200:], y[1200:], str(folder / "test.txt"), zero_based=False)


def options_of(larder):
    """What each command's help knows, by command; what any command takes is in the help of all."""
    says = subprocess.run([larder, "--help"], stdout=subprocess.PIPE, check=True).stdout.decode()
    names = set(re.findall(r"^  ([a-z][a-z-]+)  ", says, re.M))
    common = set(re.findall(r"--[a-z][a-z0-9-]*", says)) | {"--help"}
    return {"help": common} | {name: common | set(re.findall(r"--[a-z][a-z0-9-]*", subprocess.run(
        [larder, name, "--help"], stdout=subprocess.PIPE, check=True).stdout.decode())) for name in names}


def copy_examples(root, folder):
    """For lines that compile a plug-in."""
    for name in ("examples/plugin", "include"):
        shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("*.so", "*.o"))

