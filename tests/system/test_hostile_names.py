"""Names from elsewhere (files, classes, members of a tar, programs, runs) that would move a terminal's
cursor, begin a line of their own or turn the reading direction: what people see is escaped, what
programs read is exact."""
import html
import io
import json
import os
import pathlib
import re
import struct
import shutil
import subprocess
import tarfile
import tempfile
import zlib

LARDER = os.environ["LARDER"]
ESC, CSI, RLO, NEWLINE, NEL = "\x1b[2J", "\u009b2J", "\u202e", "\nfake line", "\u0085"
HOSTILE = f"a{ESC}{CSI}{RLO}{NEWLINE}{NEL}b"
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def clean(text, what):
    found = UNSAFE.search(text)
    assert not found, (what, found, text)
    assert "\nfake line" not in text, (what, text)
    return text


def run(*args, **more):
    p = subprocess.run([LARDER, *args], capture_output=True, timeout=120, **more)
    out, err = p.stdout.decode(), p.stderr.decode()  # UTF-8, whatever went in
    clean(out, args)
    clean(err, args)
    return p.returncode, out, err


def png(side=4):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    rows = b"".join(b"\0" + bytes(3 * side) for _ in range(side))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def folder_of(tmp):
    for label in (HOSTILE, "plain"):
        (tmp / "data" / label).mkdir(parents=True)
        for i in range(8):
            (tmp / "data" / label / f"{i}{HOSTILE}.png").write_bytes(png())
    os.makedirs(os.fsencode(tmp / "data") + b"/plain\xff")
    with open(os.fsencode(tmp / "data") + b"/plain\xff/\xfe.png", "wb") as f:
        f.write(png())
    return tmp / "data"


def test_ls(tmp):
    data = folder_of(tmp)
    code, out, _ = run("ls", str(data))
    assert code == 0 and "\\x1b[2J\\u009b2J\\u202e\\x0afake line\\u0085b" in out and "\\xff" in out, out
    code, out, _ = run("ls", str(data), "--json", "--limit", "100")
    names = [os.fsencode(s["name"]) for s in json.loads(out)["samples"]]
    assert any(n.endswith(f"/3{HOSTILE}.png".encode()) for n in names), names
    assert any(n.endswith(b"\xff/\xfe.png") for n in names), names


def test_sentences(tmp):
    data = folder_of(tmp)
    for broken in data.glob("*/*.png"):
        broken.write_bytes(b"\x89PNG")
    code, _, err = run("train", str(data), "--test", "none", "--epochs", "1", "--augment", "resize:h=4,w=4")
    assert code != 0 and "\\u202e" in err, err
    code, _, err = run("ls", str(tmp / f"no{HOSTILE}"))
    assert code == 1 and "\\u202e\\x0afake line\\u0085" in err, err
    with tarfile.open(tmp / f"{HOSTILE}.tar", "w") as t:
        for i in range(3):
            member = tarfile.TarInfo(f"{i}{HOSTILE}.png")
            member.size = len(png())
            t.addfile(member, io.BytesIO(png()))
    code, out, err = run("ls", f"tar:{tmp}/{HOSTILE}.tar")
    assert code == 0 and "\\u202e" in out, (out, err)


def test_runs_and_tapes(tmp):
    data = folder_of(tmp).rename(tmp / f"data{HOSTILE}")
    out, tape = tmp / f"run{HOSTILE}", tmp / "tape"
    code, _, err = run("train", f"dir:{data}", "--test", "none", "--epochs", "2", "--out", str(out),
                       "--record", str(tape), "--augment", "resize:h=4,w=4", "--batch", "4")
    assert code == 0, err
    meta = out / "meta.json"
    text = json.loads(meta.read_text())
    text["name"] = text["machine"] = text["source"] = HOSTILE
    meta.write_text(json.dumps(text) + "\n")
    page, md = tmp / "page.html", tmp / "page.md"
    code, shown, err = run("report", str(out), "-o", str(page), "--md", str(md))
    assert code == 0 and "\\u202e" in shown, (shown, err)
    assert "\\u202e" in clean(html.unescape(page.read_text()), "html")
    assert "\\u202e" in html.unescape(clean(md.read_text(), "md"))
    again = shutil.copytree(out, tmp / f"again{HOSTILE}")
    code, shown, err = run("compare", str(out), str(again))
    assert code == 0 and "\\u202e" in shown, (shown, err)
    code, shown, err = run("suggest", str(tape))
    assert code == 0 and "\\u202e" in shown.split(" samples")[0], (shown, err)


def test_where_it_is(tmp):
    (tmp / HOSTILE).mkdir()
    code, out, err = run("doctor", "--seconds", "0", cwd=tmp / HOSTILE)
    assert code == 0 and "\\u202e" in out, (out, err)
    # What a shell makes of * in a folder like that.
    for args in ([HOSTILE], ["help", HOSTILE], ["doctor", HOSTILE], ["doctor", "--" + HOSTILE], ["sim", "--n=" + HOSTILE]):
        code, _, err = run(*args)
        assert code == 2 and "\\u202e" in err, (args, err)


def test_record_of_a_cache(tmp):
    code, out, err = run("train", "mem:?n=200&h=8&w=8&c=3", "--test", "none", "--epochs", "1", "--recipe", "lru",
                         "--cache", f"5%+disk:{HOSTILE}?budget=10MiB", "--record", "tape", cwd=tmp)
    assert code == 0 and "\\u202e" in out, (out, err)
    for args in (["suggest", "tape", "--price", "s3"], ["sim", "--replay", "tape"]):
        code, out, err = run(*args, cwd=tmp)
        assert code == 0 and out.count("\\u009b") > 1, (args, out, err)


def main():
    for name, test in sorted(globals().items()):
        if not name.startswith("test_"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            test(pathlib.Path(folder)) if test.__code__.co_argcount else test()
        print("ok", name)


if __name__ == "__main__":
    main()
