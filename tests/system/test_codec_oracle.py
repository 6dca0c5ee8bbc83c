#!/usr/bin/env python3
"""Pictures other than JPEG and PNG against Pillow: BMP, PBM/PGM/PPM, WebP, TIFF and GIF in every
form that Pillow writes, whole and cropped, within one level of 255 of convert("RGB"). Of 16 bits
the upper ones are kept, where Pillow's own conversion of grey clips at 255. Exits with 77 where
Pillow or the tool is missing."""
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    from PIL import Image, ImageFile
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

BUILD = os.environ.get("LARDER_BUILD", "build")
TOOL = os.environ.get("TOOL_STAGE", os.path.join(BUILD, "tool_stage"))
if not os.access(TOOL, os.X_OK):
    print(f"skipped: no {TOOL}")
    sys.exit(77)
W, H = 83, 61
failures, skipped, cases = [], set(), []


def check(right, what):
    if not right:
        failures.append(what)
        print("FAILED:", what)


def tool(spec, paths, size):
    """The pictures as larder decodes them, or its sentence about the first that fails."""
    done = subprocess.run([TOOL, spec, "u8", "nhwc", "0"], input="\n".join(paths).encode(),
                          capture_output=True, check=False)
    said = done.stderr.decode()
    if done.returncode:
        return said.strip()
    return np.frombuffer(done.stdout, np.uint8).reshape(len(paths), *size, 3).astype(int)


def decoded(path):
    """Is this format part of this build?"""
    got = tool("centercrop:size=1", [path], (1, 1))
    if not isinstance(got, str) or "this build decodes no" not in got:
        return True
    skipped.add(got.split("decodes no ")[1].split(":")[0])
    return False


def compare_all():
    """Whole, and two parts that begin at odd places."""
    groups = {}
    endings = {os.path.splitext(path)[1]: path for path, _ in cases}
    there = {ending for ending, path in endings.items() if decoded(path)}
    for path, want in cases:
        if os.path.splitext(path)[1] in there:
            groups.setdefault(want.shape[:2], []).append((path, want))
    for (h, w), group in groups.items():
        for ch, cw in [(h, w), (h - 21, w - 33), (7, 9)]:
            y, x = round((h - ch) / 2), round((w - cw) / 2)
            got = tool(f"centercrop:h={ch},w={cw}", [path for path, _ in group], (ch, cw))
            if isinstance(got, str):
                check(False, got)
                continue
            for (path, want), one in zip(group, got):
                bad = np.abs(one - want[y:y + ch, x:x + cw]).max()
                check(bad <= 1, f"{os.path.basename(path)}, {ch} x {cw}: off by {bad}")


def compare(path, want):
    cases.append((path, np.asarray(want).astype(int)))


def image(mode):
    grid = np.add.outer(np.arange(H) * 3, np.arange(W) * 2) % 256
    noise = np.random.default_rng(1).integers(0, 90, (H, W, 3))
    pixels = (np.stack([grid, grid[::-1], grid[:, ::-1]], 2) * 0.6 + noise).astype(np.uint8)
    alpha = ((np.arange(W) * 3 % 256)[None, :] + 0 * grid).astype(np.uint8)
    out = Image.fromarray(pixels)
    if mode in ("RGBA", "LA"):
        out = Image.fromarray(np.dstack([pixels, alpha]))
    return out.convert(mode)


def forms():
    for mode in ["1", "L", "P", "RGB", "RGBA"]:
        yield "bmp", mode, {}
    for mode in ["1", "L", "RGB"]:
        yield "ppm", mode, {}
    for mode in ["L", "RGB", "RGBA"]:
        yield "webp", mode, dict(lossless=True, exact=True)
        yield "webp", mode, dict(quality=80)
    for mode in ["L", "P", "RGB"]:
        yield "gif", mode, {}
        yield "gif", mode, dict(interlace=0)
    for packed in ["raw", "tiff_lzw", "tiff_deflate", "packbits"]:
        for mode in ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK"]:
            yield "tiff", mode, dict(compression=packed)
    yield "tiff", "RGB", dict(compression="jpeg", quality=90)
    yield "tiff", "1", dict(compression="group4")
    for turned in range(2, 9):
        yield "tiff", "RGB", dict(tiffinfo={274: turned})


def test_forms(folder):
    for i, (ending, mode, options) in enumerate(forms()):
        path = os.path.join(folder, f"{i}-{mode}.{ending}")
        image(mode).save(path, **options)
        compare(path, Image.open(path).convert("RGB"))


def test_16_bits(folder):
    grey = (np.add.outer(np.arange(H) * 900, np.arange(W) * 100) % 65536).astype(np.uint16)
    rgb = np.repeat((grey >> 8).astype(np.uint8)[:, :, None], 3, 2)
    for ending in ["png", "tiff", "ppm"]:
        path = os.path.join(folder, "grey16." + ending)
        picture = Image.fromarray(grey) if ending != "ppm" else Image.fromarray(
            grey.astype(np.int32))
        picture.save(path)
        compare(path, rgb)
    path = os.path.join(folder, "rgb16.ppm")
    colour = np.stack([grey, grey[::-1], grey[:, ::-1]], 2)
    with open(path, "wb") as out:
        out.write(b"P6 # deep\n%d %d\n65535\n" % (W, H) + colour.astype(">u2").tobytes())
    compare(path, Image.open(path).convert("RGB"))


def test_made(folder):
    """What Pillow reads and does not write."""
    rng = np.random.default_rng(2)
    def put(name, data):
        path = os.path.join(folder, name)
        with open(path, "wb") as out:
            out.write(data)
        compare(path, Image.open(path).convert("RGB"))
    values = rng.integers(0, 32, (H, W, 3))
    put("text.ppm", b"P3\n%d %d\n# a comment\n31\n" % (W, H)
        + b" ".join(b"%d" % v for v in values.ravel()))
    put("text.pgm", b"P2 %d %d 31\n" % (W, H)
        + b"\n".join(b"%d" % v for v in values[..., 0].ravel()))
    put("text.pbm", b"P1 %d %d\n" % (W, H)
        + b"".join(b"%d" % (v & 1) for v in values[..., 0].ravel()))
    put("odd.pgm", b"P5 %d %d 100\n" % (W, H)
        + rng.integers(0, 101, (H, W)).astype(np.uint8).tobytes())

    def bmp(bits, coding, body, extra=b"", colours=0):
        head = np.array([40, W, H], "<i4").tobytes() + np.array([1, bits], "<u2").tobytes() \
            + np.array([coding, len(body), 1, 1, colours, 0], "<u4").tobytes() + extra
        return b"BM" + np.array([14 + len(head) + len(body), 0, 14 + len(head)],
                                "<u4").tobytes() + head + body
    palette = rng.integers(0, 256, (256, 4)).astype(np.uint8).tobytes()
    words = rng.integers(0, 65536, (H, (W + 1) // 2 * 2)).astype("<u2").tobytes()
    put("555.bmp", bmp(16, 0, words))
    put("565.bmp", bmp(16, 3, words, np.array([0xf800, 0x7e0, 0x1f], "<u4").tobytes()))
    put("masks.bmp", bmp(32, 3, rng.integers(0, 2**32, (H, W)).astype("<u4").tobytes(),
                         np.array([0xff000000, 0xff0000, 0xff00], "<u4").tobytes()))
    nibbles = rng.integers(0, 256, (H, (W + 7) // 8 * 4)).astype(np.uint8).tobytes()
    put("16-colours.bmp", bmp(4, 0, nibbles, palette[:64]))
    runs = b"".join(b"".join(bytes([7, (x + y) % 256]) for x in range(W // 7))
                    + bytes([0, W % 7 or 3, 1, 2, 3, 4, 5, 6])[:2 + W % 7 + W % 7 % 2] + b"\0\0"
                    for y in range(H)) + b"\0\1"
    put("runs.bmp", bmp(8, 1, runs, palette))
    put("few-colours.gif", b"GIF89a" + np.array([W, H], "<u2").tobytes() + b"\x80\0\0"
        + bytes([9, 8, 7, 200, 100, 50]) + b"!\xf9\4\1\0\0\1\0" + b"," + np.array(
            [5, 6, 2, 2], "<u2").tobytes() + b"\0" + b"\2\3\x44\x02\x05\0;")


def test_broken(folder):
    """Cut in half, one of each fails with a sentence that names the format."""
    kinds = {ending: f"{i}-{mode}.{ending}" for i, (ending, mode, _) in enumerate(forms())}
    for ending, name in kinds.items():
        path, cut = os.path.join(folder, name), os.path.join(folder, "cut." + ending)
        with open(path, "rb") as file:
            data = file.read()
        with open(cut, "wb") as out:
            out.write(data[:len(data) // 2])
        got = tool(f"centercrop:h={H},w={W}", [cut], (H, W))
        named = {"ppm": "pnm"}.get(ending, ending) + ": "
        check(isinstance(got, str) and (named in got or "this build" in got),
              f"{name} cut in half: {got if isinstance(got, str) else 'decoded'}")


def test_bombs(folder):
    """A few bytes that declare gigapixels are refused by their head."""
    four = lambda *v: np.array(v, "<u4").tobytes()
    side = 60000
    tags = [(256, 4, 1, side), (257, 4, 1, side), (258, 3, 1, 8), (259, 3, 1, 5), (262, 3, 1, 1),
            (273, 4, 1, 8), (277, 3, 1, 1), (278, 4, 1, side), (279, 4, 1, 100)]
    entries = b"".join(np.array(t[:2], "<u2").tobytes() + four(*t[2:]) for t in tags)
    # A small picture in a giant tile: the memory is not explained by its pixels.
    tile = [(256, 4, 1, 16), (257, 4, 1, 16), (258, 3, 1, 8), (259, 3, 1, 5), (262, 3, 1, 1),
            (277, 3, 1, 1), (322, 4, 1, 1 << 15), (323, 4, 1, 1 << 15), (324, 4, 1, 8),
            (325, 4, 1, 100)]
    tiles = b"".join(np.array(t[:2], "<u2").tobytes() + four(*t[2:]) for t in tile)
    bombs = {
        "bomb.ppm": b"P6 60000 60000 255\n" + bytes(100),
        "bomb.bmp": b"BM" + four(0, 0, 54, 40, side, side, 1 + (24 << 16), 0, 0, 1, 1, 0, 0),
        "bomb.gif": b"GIF89a\xff\xff\xff\xff\0\0\0,\0\0\0\0\xff\xff\xff\xff\0\2\3\x44\2\5\0;",
        "bomb.webp": b"RIFF\x2c\0\0\0WEBPVP8L\x20\0\0\0\x2f\xff\xff\xff\x0f" + bytes(27),
        "bomb.tiff": b"II*\0" + four(8) + np.uint16(len(tags)).tobytes() + entries + four(0),
        "tile.tiff": b"II*\0" + four(8) + np.uint16(len(tile)).tobytes() + tiles + four(0),
    }
    for name, data in bombs.items():
        path = os.path.join(folder, name)
        with open(path, "wb") as out:
            out.write(data)
        got = tool("centercrop:size=8", [path], (8, 8))
        told = ("the limit is", "a strip of", "this build")
        check(isinstance(got, str) and any(t in got for t in told),
              f"{name}: {got if isinstance(got, str) else 'decoded'}")


def main():
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    with tempfile.TemporaryDirectory() as folder:
        test_forms(folder)
        test_16_bits(folder)
        test_made(folder)
        compare_all()
        test_broken(folder)
        test_bombs(folder)
    print(f"{len(failures)} failed; not in this build: {sorted(skipped) or 'none'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
