"""The program where things go wrong around it: a full disk, a closed pipe, odd file names, Ctrl-C."""
import base64
import io
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from process_kit import interrupt  # noqa: E402

LARDER = os.environ["LARDER"]
SMALL = "mem:?n=60&h=8&w=8&c=1"
PICTURE = (  # a PNG of 4 x 4 pixels
    "iVBORw0KGgoAAAANSUhEUgAAAAQAAAAECAIAAAAmkwkpAAAAFElEQVR4nGM8IcfJAANMDEgANwcAMHEA99ERwmoAAAAASUVORK5CYII="
)
TRAIN = [SMALL, "--epochs", "2", "--quiet", "--test", "none"]


def run(*args, **more):
    return subprocess.run([LARDER, *args], capture_output=True, timeout=120, **more)


def test_full_disk_behind_stdout():
    with open("/dev/full", "wb") as full:
        for args in (["list"], ["ls", SMALL], ["ls", SMALL, "--json"], ["--help"], ["--version"],
                     ["sim", "--help"], ["sim", "--recipe", "lru", "--n", "100"],
                     ["sim", "--recipe", "lru", "--n", "100", "--json"],
                     ["train", SMALL, "--epochs", "1", "--test", "none", "--quiet"]):
            p = subprocess.run([LARDER, *args], stdout=full, stderr=subprocess.PIPE, timeout=120)
            assert p.returncode == 1 and b"standard output" in p.stderr, (args, p)


def test_plots_are_whole_or_not_there(tmp):
    p = run("sim", "--recipe", "lru", "--n", "100", "--plot", str(tmp / "no" / "x.svg"))
    assert p.returncode == 1 and b"No such file" in p.stderr, p
    p = run("sim", "--recipe", "lru", "--n", "100", "--plot", "/dev/full")
    assert p.returncode == 1 and b"/dev/full" in p.stderr, p
    out = tmp / "x.svg"
    out.write_text("old")
    limited = ["bash", "-c", 'ulimit -f 1; trap "" XFSZ; exec "$0" "$@"', LARDER]
    many = ",".join(["lru", "minio", "quiver", "lfu", "fifo", "sieve", "random"])
    p = subprocess.run([*limited, "sim", "--recipe", many, "--n", "100", "--epochs", "40", "--plot",
                        str(out)], capture_output=True, timeout=120)
    assert p.returncode == 1, p
    assert out.read_text() == "old" and os.listdir(tmp) == ["x.svg"], os.listdir(tmp)


def test_no_space_left(tmp):
    # A disk of 64 KiB, full but for a page: what is there stays, and there is a sentence.
    script = """mount -t tmpfs -o size=64k none "$1" || exit 77
        cd "$1" && echo old >x.svg && chmod 600 x.svg && mkdir run && echo {} >run/meta.json || exit 78
        dd if=/dev/zero of=fill bs=4096 2>/dev/null
        "$2" sim --recipe lru --n 100 --plot x.svg; echo "sim $?"
        "$2" train "$3" --epochs 1 --test none --out run --quiet; echo "train $?"
        "$2" report "$4" -o page.html >/dev/null; echo "report $?"
        cat x.svg run/meta.json; find . -name '.larder*'; stat -c %a x.svg; rm fill
        "$2" sim --recipe lru --n 100 --plot x.svg >/dev/null; echo "sim $?"; stat -c %a x.svg"""
    (tmp / "disk").mkdir()
    run("train", *TRAIN, "--out", str(tmp / "done"))
    p = run_script(script, str(tmp / "disk"), LARDER, SMALL, str(tmp / "done"))
    if p.returncode != 0:
        print("no file system may be mounted here: the full disk is left out")
        return
    out, err = p.stdout.decode(), p.stderr.decode()
    assert "sim 1\n" in out and "train 1\n" in out and "old\n{}\n600\nsim 0\n600\n" in out, p
    assert err.count("No space left on device") == 3 and "x.svg" in err, p
    assert "page.html: cannot be written" in err and "report 1\n" in out, p


def run_script(script, *args):
    flags = "-m" if os.geteuid() == 0 else "-rm"
    return subprocess.run(["unshare", flags, "sh", "-c", script, "sh", *args], capture_output=True, timeout=120)


def test_plots_know_units(tmp):
    # 12.5, 25 and 50 % of 4096 samples of 1 KiB; what tables cost moves the line, but not along x
    drawn = []
    for sizes in ("12.5%,25%,50%", "512KiB,1MiB,2048KiB", "12.5%,1024KiB,2MiB"):
        out = tmp / "x.svg"
        p = run("sim", "--recipe", "minio", "--n", "4096", "--size", "1024", "--cache", sizes,
                "--plot", str(out))
        assert p.returncode == 0, p
        line = re.search(r'<path [^>]*fill="none"[^>]* d="([^"]*)"', out.read_text())[1]
        drawn.append([point.split()[0] for point in re.split("[ML]", line)[1:]])
    assert len(drawn[0]) == 3 and drawn[0] == drawn[1] == drawn[2], drawn


def test_closed_pipe():
    p = subprocess.Popen([LARDER, "ls", "mem:?n=200000", "--limit", "200000"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    p.stdout.read(10)
    p.stdout.close()
    assert p.wait(60) == -signal.SIGPIPE and p.stderr.read() == b""


def test_odd_names(tmp):
    folder = os.fsencode(tmp) + b"/c\xff\xfe\x1b[31m"
    os.mkdir(folder)
    names = [b"a\xffb.jpg", b"esc\x1b[2J.jpg", b"new\nline.jpg", "gr\u00fc\u00df.jpg".encode()]
    for name in names:
        with open(folder + b"/" + name, "wb") as f:
            f.write(b"\xff\xd8\xff")
    p = run("ls", str(tmp), "--json")
    about = json.loads(p.stdout.decode())  # UTF-8, whatever the names are
    got = sorted(os.fsencode(s["name"]).split(b"/")[-1] for s in about["samples"])
    assert got == sorted(names), got
    p = run("ls", str(tmp))
    assert p.returncode == 0 and b"\x1b" not in p.stdout and p.stdout.count(b"line.jpg") == 1, p
    p = run("ls", str(tmp / "no\x1b[2Jsuch"))
    assert p.returncode == 1 and b"\x1b" not in p.stderr, p
    p = run("train", str(tmp), "--test", "none", "--epochs", "1")
    assert p.returncode != 0 and b"\x1b" not in p.stderr, p


def interrupted(*args, after):
    # Nobody reads while it runs: a pipe would be full before the processor time is spent.
    p = subprocess.Popen([LARDER, *args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    interrupt(p, after)
    _, err = p.communicate(timeout=60)
    assert p.returncode == 130, (args, p.returncode, err)


def test_interrupt():
    # Long before the future is known.
    interrupted("sim", "--recipe", "belady", "--n", "3000000", "--epochs", "100", after=0.3)
    interrupted("train", SMALL, "--epochs", "100000", "--test", "none", "--quiet", after=0.3)


def put_tar(path, count, label=lambda i: i % 3, more=(), flat=True, name=None):
    """A WebDataset shard of small pictures; label(i) may be None; `more` are endings beside them."""
    picture = base64.b64decode(PICTURE)
    with tarfile.open(path, "w") as t:
        for i in range(count):
            parts = [("png", picture)] + [(e, b"{}") for e in more]
            if label(i) is not None:
                parts.append(("cls", b"%d" % label(i)))
            for ending, data in parts:
                name = name or ("{:06d}.{}" if flat else "d{}/{:06d}.{}")
                member = tarfile.TarInfo(name.format(*([] if flat else [i % 2]), i, ending))
                member.size = len(data)
                t.addfile(member, io.BytesIO(data))
    return str(path)


def says(code, *args, of=(), out="err", **more):
    """What the program says: this exit code, one line on stderr alone, with these words."""
    p = run(*args, **more)
    text = (p.stderr if out == "err" else p.stdout).decode(errors="replace")
    assert p.returncode == code, (args, p)
    for word in of:
        assert word in text, (args, word, text)
    if code == 2:
        assert text.count("\n") == 1, (args, p)
    return text


def test_did_you_mean():
    says(2, "trian", of=['no command "trian"; did you mean train? larder --help lists them'])
    says(2, "svm_trian", of=["did you mean svm-train?"])
    says(2, "zebra", of=['no command "zebra"; larder --help'])
    says(2, "train", SMALL, "--epcohs", "3", of=["no option --epcohs; did you mean --epochs?"])
    says(2, "train", SMALL, "--epcohs=3", of=["no option --epcohs; did you mean --epochs?"])
    says(2, "train", SMALL, "--hlep", of=["did you mean --help?"])
    says(2, "ls", SMALL, "--epochs", "3", of=["it is one of", "larder sim", "larder train"])
    says(2, "plan", "--once", of=["it is one of larder top;"])
    says(2, "train", SMALL, "--zebra", of=["no option --zebra; larder train --help tells more"])
    says(2, "train", SMALL, "-z", of=["no option -z;"])
    there = says(2, "train", *TRAIN, "--recipe", "rotat", of=["did you mean rotate?"]).split("There are ")[1].strip().split(", ")
    assert len(there) == len(set(there)) > 20, there
    for name in ("svm-train", "svm-grid", "serve", "dash"):
        says(2, name, "--epochs", of=["it is one of", "larder train"])


def test_help():
    for name in ("train", "svm-train", "svm-scale", "top", "plan"):
        asked, long_way = run("help", name), run(name, "--help")
        assert asked.returncode == 0 and asked.stdout == long_way.stdout, (name, asked)
        assert b"larder %s" % name.encode() in asked.stdout.split(b"\n")[0], asked
    everything = run("--help").stdout
    for args in (["help"], ["help", "help"], ["-h"]):
        assert run(*args).stdout == everything, args
    says(2, "help", "trian", of=["did you mean train?"])
    says(2, "help", "nosuch", of=['no command "nosuch"'])


def test_cache_without_a_unit(tmp):
    asks = '20 % or 20 bytes? Write 20% for a share of the data'
    for args in (["train", *TRAIN, "--cache", "20"], ["sim", "--recipe", "lru", "--n", "9", "--cache", "20"],
                 ["profile", SMALL, "--cache", "20", "-o", str(tmp / "x")]):
        says(2, *args, of=[asks])
    for where in ("unix:/x/y", "redis://127.0.0.1:1/"):
        text = says(2, "train", *TRAIN, "--cache", where + "?budget=20")
        assert asks in text or "budget=20%" in text, text
    says(2, "train", *TRAIN, "--cache", "tcp://127.0.0.1:1?token-file=x", of=["through Redis"])
    says(2, "train", *TRAIN, "--cache", "20+redis://127.0.0.1:1/?budget=20%", of=["a size"])
    says(2, "serve", "--socket", str(tmp / "s"), "--cache", "20", of=["20 bytes? Write 20MiB"])
    says(2, "serve", "--socket", str(tmp / "s"), "--cache", "0", of=["without a cache"])
    says(2, "serve", "--socket", str(tmp / "s"), "--quota", "20", of=["--quota", "20 bytes?"])
    says(2, "pack", SMALL, str(tmp / "p"), "--shard-size", "256", of=["256 bytes? Write 256MiB"])
    p = run("train", *TRAIN, "--cache", "0")
    assert p.returncode == 0 and p.stderr == b"", p


def test_cache_that_holds_nothing():
    # 64 bytes a sample: 63 of them hold none, and so does what the tables take of 600
    for cache in ("63B", "600", "1%"):
        p = run("train", *TRAIN, "--cache", cache)
        said = p.stderr.decode()
        assert p.returncode == 0 and said.count("\n") == 1, p
        assert f'larder train: cache "{cache}" holds none of the 60 samples' in said, said
        p = run("sim", "--recipe", "minio", "--n", "60", "--size", "64", "--epochs", "2", "--cache", cache)
        said = p.stderr.decode()
        assert f'larder sim: cache "{cache}" holds none of the 60 samples' in said, said
    for cache in ("10%", "100KiB", "0", "0%"):
        p = run("train", *TRAIN, "--cache", cache)
        assert p.returncode == 0 and p.stderr == b"", p


NO_LABEL = "samples have no label, the first is"


def test_samples_without_a_label(tmp):
    some = put_tar(tmp / "some.tar", 9, lambda i: None if i == 4 else i % 3)
    none = put_tar(tmp / "none.tar", 9, lambda i: None, more=["json", "txt"])
    whole = put_tar(tmp / "whole.tar", 9)
    for path, count, first in ((some, 1, "some.tar:000004.png"), (none, 9, "none.tar:000000.png")):
        wants = [f"{count} of 9 {NO_LABEL} {first}", ".cls members"]
        said = says(2, "train", f"tar:{path}", "--test", "none", of=["training needs labels", *wants])
        assert said.count("\n") == 1, said
        says(2, "train", whole, "--test", path, of=["validation needs labels", *wants])
        says(0, "ls", path, of=wants)
        says(0, "pack", path, str(tmp / ("packed-" + first[:4])), "--quiet", of=wants)
    assert run("ls", whole).stderr == b""


def test_what_is_not_used(tmp):
    shard = put_tar(tmp / "s.tar", 9, more=["json", "seg.png"])
    unused = "s.tar: 18 members are not used: 9 .json, 9 .seg.png"
    says(0, "ls", shard, of=[unused])
    says(0, "pack", shard, str(tmp / "packed"), "--quiet", of=[unused])
    says(0, "unpack", shard, str(tmp / "again"), "--quiet", of=[unused])
    said = says(0, "train", shard, "--test", "none", "--epochs", "2", "--quiet", of=[unused])
    assert said.count("\n") == 1, said
    for name in ("cat/1.webp", "cat/2.png", "dog/3.bmp", "dog/notes.txt", "classes.json"):
        (tmp / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp / "photos" / name).write_bytes(base64.b64decode(PICTURE))
    says(0, "ls", str(tmp / "photos"), of=["photos: 2 files are not used: 1 .json, 1 .txt"])
    (tmp / "manifest.tsv").write_text("photos/cat/2.png\t-\t0\nphotos/dog/notes.txt\t-\t1\n")
    says(0, "ls", f"list:{tmp}/manifest.tsv", of=["does not decode 1 samples", "notes.txt"])


def seen(where):
    """All of a data set but its files' names: labels in order, class names and counts."""
    p = run("ls", str(where), "--json", "--limit", "1000")
    assert p.returncode == 0, p
    told = json.loads(p.stdout)
    names = [s["name"].split(":")[-1] for s in told["samples"]]
    return ([(s["label"], s["bytes"]) for s in told["samples"]], told["class_counts"], names,
            told["source"])


def test_parts_and_bad_pictures(tmp):
    for name in ("train/cat/1.png", "train/dog/2.png", "val/cat/3.png", "val/dog/4.png", "val/dog/5.png"):
        (tmp / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp / name).write_bytes(base64.b64decode(PICTURE))
    says(0, "ls", str(tmp), out="out", of=["samples   2", f"part      train; 3 samples to test with are {tmp}?split=test"])
    for alone in (f"{tmp}?split=test", str(tmp / "train")):
        assert "part " not in says(0, "ls", alone, out="out", of=["samples   "])
    (tmp / "train/cat/0.png").write_text("no picture")
    says(1, "train", str(tmp), "--epochs", "1", "--quiet", of=["cat/0.png", "on_bad=skip leaves it out"])
    says(0, "train", str(tmp), "--epochs", "1", "--quiet", "--on-bad", "skip", of=["passed over", "cat/0.png"])


def test_unpack_keeps_labels(tmp):
    picture = base64.b64decode(PICTURE)
    for i, name in enumerate(("cat/2.png", "cat/#1.png", "dog/1.png", "emu/z/9.png", "emu/10.png")):
        (tmp / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp / "photos" / name).write_bytes(picture + bytes([i]))
    sources = {
        "photos": tmp / "photos",  # class folders: they tell everything
        "flat": put_tar(tmp / "flat.tar", 9),
        "sparse": put_tar(tmp / "sparse.tar", 9, lambda i: 7 * (i % 2) + 3),
        "part": put_tar(tmp / "part.tar", 9, lambda i: None if i == 4 else i % 3, flat=False),
        "bare": put_tar(tmp / "bare.tar", 9, lambda i: None),
        "other": put_tar(tmp / "other.tar", 9, lambda i: 1 - i % 2, flat=False),  # d0 is class 1
        "hash": put_tar(tmp / "hash.tar", 3, name="#{:06d}.{}"),
    }
    for name, source in sources.items():
        packed, again, twice = tmp / f"{name}-packed", tmp / f"{name}-again", tmp / f"{name}-twice"
        says(0, "pack", str(source), str(packed), "--quiet")
        says(0, "unpack", str(packed), str(again), "--quiet")
        says(0, "unpack", str(again), str(twice), "--quiet")
        was, now = seen(source), seen(again)
        assert seen(packed)[:2] == was[:2], name
        assert now[:3] == was[:3], (name, was, now)
        assert seen(twice)[:3] == was[:3], name
        assert now[3] == ("dir" if name == "photos" else "list"), (name, now[3])
        assert (again / "manifest.tsv").exists() == (name != "photos"), name
        for told in now[2]:
            assert (again / told).read_bytes() == (twice / told).read_bytes()
            if name == "photos":
                assert (again / told).read_bytes() == (sources[name] / told).read_bytes()
    # once more into the same folder, and one that is there with other bytes
    says(0, "unpack", str(tmp / "flat-packed"), str(tmp / "flat-again"), "--quiet")
    (tmp / "flat-again" / "000003.png").write_bytes(b"mine")
    says(0, "unpack", str(tmp / "flat-packed"), str(tmp / "flat-again"), "--quiet")
    assert seen(tmp / "flat-again")[:2] == seen(sources["flat"])[:2]
    assert (tmp / "flat-again" / "000003.png").read_bytes() == b"mine"
    p = run("train", str(tmp / "flat-again"), "--test", "none", "--epochs", "1", "--quiet")
    assert p.returncode == 0 and p.stderr == b"", p


def test_manifests(tmp):
    (tmp / "a.png").write_bytes(base64.b64decode(PICTURE))
    (tmp / "list.tsv").write_text("# mine\n\na.png\t-\t3\r\na.png\n")
    labels, classes, _, source = seen(tmp / "list.tsv")
    assert [y for y, _ in labels] == [3, -1] and len(classes) == 4 and source == "list", labels
    for text, word in (("b.png\n", "b.png: No such file"), ("../a.png\t9\n", "stay below its folder"),
                       ("/etc/passwd\t9\n", "stay below"), ("a.png\tx\n", "line 1 has a size"),
                       ("a.png\t-\tcat\n", "line 1 has a class"), ("\n#\n", "names no files"),
                       (".\n", "not a regular file"), ("a.png\t9999999999\n", "4 GiB or more")):
        (tmp / "bad.tsv").write_text(text)
        says(1, "ls", str(tmp / "bad.tsv"), of=["bad.tsv", word])
    twins = []
    for name, fill in (("one", b"a"), ("two", b"b")):  # alike but for their bytes
        (tmp / name).mkdir()
        (tmp / name / "x.png").write_bytes(fill * 9)
        (tmp / name / "list.tsv").write_text("x.png\t9\t0\n")
        twins.append(json.loads(run("ls", str(tmp / name / "list.tsv") + "?content=x", "--json").stdout))
    assert twins[0]["fingerprint"] == twins[1]["fingerprint"], twins
    assert twins[0]["identity"] != twins[1]["identity"], twins
    says(1, "ls", f"list:{tmp}", of=["manifest.tsv"])
    says(2, "ls", "list:", of=["needs a place"])


RATES = ("t_gpu=4550,t_da=2132,t_a=4050,b_storage=500MB,b_cache=1.25GB,s_cache=64GB,s_data=114KB,"
         "m=5.12,n_total=1.3e6")


def wrong_places(tmp):
    """What a newcomer may hand over instead of a file or a folder."""
    (tmp / "empty").write_bytes(b"")
    (tmp / "text").write_text("garbage\nand more\n\n\n")
    (tmp / "binary").write_bytes(bytes(range(256)) * 4 + b"x")
    (tmp / "folder").mkdir()
    return [str(tmp / name) for name in ("nosuch", "empty", "text", "binary", "folder")]


def test_wrong_files(tmp):
    for place in wrong_places(tmp):
        name = os.path.basename(place)
        for args in (["sim", "--replay", place], ["sim", "--access", place, "--entries", "10"],
                     ["sim", "--recipe", "lru", "--trace", place], ["sim", "--recipe", "lru", "--data", place],
                     ["plan", "--profile", place], ["report", place], ["compare", place, place],
                     ["profile", place, "--seconds", "0.1", "--run", place], ["train", place],
                     ["ls", place], ["pack", place, str(tmp / "out")], ["pack", "--check", place],
                     ["unpack", place, str(tmp / "out")]):
            p = run(*args)
            assert p.returncode in (1, 2) and p.stderr.count(b"\n") in (1, 2), (args, p)
            assert name.encode() in p.stderr, (args, p)
    says(1, "ls", str(tmp / "folder"), of=["holds no class folders: pictures lie in a folder per class"])
    says(1, "sim", "--access", str(tmp / "text"), of=["is a text; ids are binary"])


def test_runs_and_data_mistaken(tmp):
    """A folder of runs instead of a run, a run instead of data, the demo of another package, a variable that is empty."""
    assert run("train", *TRAIN, "--out", str(tmp / "runs" / "a")).returncode == 0
    says(1, "report", str(tmp / "runs"), of=["is no run, but holds some: name them, as ", "runs/*"])
    says(1, "report", str(tmp), of=["is '", "a folder written by larder train --out?"])
    says(2, "suggest", str(tmp / "runs" / "a"), "--rate", "9", of=["runs/a is a run, of which larder report tells"])
    says(2, "demo", of=["python3 -m larder demo"])
    says(1, "report", str(tmp / "runs" / "a"), "-o", "", of=['larder report: "": cannot be written'])


def test_sim_says_what_it_does_not_do(tmp):
    tape, ids = str(tmp / "job.tape"), tmp / "ids.u32"
    assert run("train", *TRAIN, "--record", tape).returncode == 0
    ids.write_bytes(struct.pack("<8I", 0, 1, 2, 3, 0, 1, 2, 3))
    imagined, replay = ["--recipe", "lru", "--n", "50"], ["--replay", tape]
    access = ["--access", str(ids)]
    assert run("sim", *access, "--entries", "2", "--seed", "3", "--batch", "2").returncode == 0
    nothing = "changes nothing with"
    for extra in (["--batch", "5"], ["--seed", "5"], ["--size", "5"], ["--n", "5"], ["--data", SMALL],
                  ["--trace", "x"], ["--analyze"], ["--entries", "5"], ["--lambda", "1"], ["--row", "5"],
                  ["--decoded", "5"], ["--augment", "flip"], ["--parts", "off"], ["--plot", "x.svg"]):
        says(2, "sim", *replay, *extra, of=[f"{extra[0]} {nothing} a recorded job: --replay takes"])
    for extra in (["--recipe", "lru"], ["--n", "5"], ["--cache", "20%"], ["--epochs", "5"], ["--size", "5"],
                  ["--data", SMALL], ["--plot", "x.svg"]):
        says(2, "sim", *access, *extra, of=[f"{extra[0]} {nothing} --access"])
    says(2, "sim", *access, *replay, of=["--access changes nothing"])
    says(2, "sim", *imagined, "--data", SMALL, of=["--n is for imagined data"])
    says(2, "sim", *imagined, "--augment", "flip", of=["go with --data"])
    says(2, "sim", *access, "--entries", "0", of=["a cache of no row"])
    says(2, "sim", *access, "--entries", "1%", of=["--entries 1% of 4 rows"])
    for text in ("", ",", "lru,", "lru,,minio"):
        says(2, "sim", "--n", "50", "--recipe", text, of=["nothing stands before or after a comma"])
    for extra in (["--batch", "0"], ["--epochs", "0"]):
        says(2, "sim", *imagined, *extra, of=[f"{extra[0]} is at least 1"])
    p = run("sim", *imagined, "--cache", "20")
    assert p.returncode == 2 and p.stdout == b"", p  # no head of a table that never comes
    p = run("sim", *replay, "--policy", "lru", "--cache", "30B")
    assert p.returncode == 0 and b"holds none of the 60 samples" in p.stderr, p


def test_plan_and_profile(tmp):
    says(2, "plan", "--set", "t_gpuu=3", of=['no rate "t_gpuu"; did you mean t_gpu? larder plan'])
    says(2, "plan", "--set", "zebra=3", of=['no rate "zebra"; larder plan'])
    says(2, "plan", "--set", RATES + ",s_cache=20", of=["s_cache", "20 bytes? Write 20MiB"])
    for more in ("s_cache=0", "s_cache=6.4e10", "s_cache=20B"):
        says(0, "plan", "--set", RATES + "," + more)
    for wrong in ("t_gpu=0", "t_gpu=-5", "m=0", "n_total=0", "gpus=0", "s_cache=", "nvlink=zebra", "t_gpu"):
        says(2, "plan", "--set", RATES + "," + wrong)
    for extra in (["--t-gpu", "0"], ["--t-gpu", "-1"], ["--seconds", "0"], ["--batch", "0"],
                  ["--jobs", "9999"], ["--dtype", "f16"]):
        says(2, "profile", SMALL, *extra, of=[extra[0]])
    # before anything is measured: nothing of that on standard error
    for out, word in ((str(tmp), "Is a directory"), (str(tmp / "no" / "x"), "No such file")):
        said = says(1, "profile", SMALL, "-o", out, of=[out, word])
        assert "in flight" not in said, said
    kept = tmp / "kept.json"
    kept.write_text("old")
    says(2, "profile", SMALL, "-o", str(kept), "--augment", "zebra", of=["no stage"])
    assert kept.read_text() == "old" and os.listdir(tmp) == ["kept.json"], os.listdir(tmp)


def test_runs_named_twice(tmp):
    one, two = str(tmp / "one"), str(tmp / "two")
    for seed, out in ((1, one), (2, two)):
        assert run("train", *TRAIN, "--seed", str(seed), "--out", out).returncode == 0
    twice = "the same run is named twice, as number"
    says(2, "report", one, one, of=[twice])
    says(2, "report", one, two, f"{one}/", of=[twice, "1 and 3"])
    says(2, "compare", one, one, of=[twice])
    says(2, "compare", f"{one},{two}", one, of=[twice])
    says(2, "compare", f"{one},", two, of=["a comma too many"])
    assert run("report", one, two).returncode == 0 and run("compare", one, two).returncode == 0


def test_top_and_dash():
    for args in (["--every", "0"], ["--every", "-1"], ["--every", "1e300"], ["--every", "x"], ["--every"],
                 ["extra"], ["--once=3"], ["--zebra"]):
        says(2, "top", *args, of=["larder top: "])
    for args in (["--http"], ["--http", "x"], ["--http", "127.0.0.1:99999"], ["--http", "127.0.0.1"],
                 ["--http", ""], ["--token", "", "--http", "127.0.0.1:0"], ["extra"], ["--once"]):
        says(2, "dash", *args, of=["larder dash: "])


def main():
    for name, test in sorted(globals().items()):
        if not name.startswith("test_"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            test(pathlib.Path(folder)) if test.__code__.co_argcount else test()
        print("ok", name)


if __name__ == "__main__":
    sys.exit(main())
