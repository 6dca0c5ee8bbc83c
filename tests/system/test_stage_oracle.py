#!/usr/bin/env python3
"""Stages against torchvision and Pillow, the ones that people train with: decoding equals Pillow's
exactly (the same libjpeg), resizing differs by at most one level of 255, normalising by 3e-6; the
random ones have the right distribution. Photographs come from shared/data where it is there,
otherwise pictures are made up. Exits with 77 where torchvision or the tool is missing."""
import math
import os
import subprocess
import sys
import tarfile
import tempfile

try:
    import numpy as np
    import torch
    import torchvision.transforms as T
    import torchvision.transforms.functional as F
    from PIL import Image
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

BUILD = os.environ.get("LARDER_BUILD", "build")
TOOL = os.environ.get("TOOL_STAGE", os.path.join(BUILD, "tool_stage"))
SHARED = os.environ.get("LARDER_SHARED", "../shared/data")
if not os.access(TOOL, os.X_OK):
    print(f"skipped: no {TOOL}")
    sys.exit(77)

failures = []


def check(right, what):
    if not right:
        failures.append(what)
        print("FAILED:", what)


def run(spec, paths, shape, dtype="u8", layout="nhwc", seed=0, raw=None):
    """Samples of `shape` (h, w, c) as an array, channels last."""
    command = [TOOL, spec, dtype, layout, str(seed)] + ([raw] if raw else [])
    names = "\n".join(paths).encode()
    done = subprocess.run(command, input=names, capture_output=True, check=False)
    if b"this build decodes no" in done.stderr:
        print("skipped:", done.stderr.decode().strip())
        sys.exit(77)
    if done.returncode:
        check(False, f"{spec}: {done.stderr.decode().strip()}")
        sys.exit(1)
    h, w, c = shape
    out = np.frombuffer(done.stdout, np.uint8 if dtype == "u8" else np.float32)
    if layout == "nhwc":
        return out.reshape(len(paths), h, w, c)
    return out.reshape(len(paths), c, h, w).transpose(0, 2, 3, 1)


def pictures(folder):
    """Paths of real photographs, or made-up ones, in several encodings."""
    found = []
    tar = os.path.join(SHARED, "jpeg", "imagenet-sample-0000.tar")
    if os.path.exists(tar):
        with tarfile.open(tar) as archive:
            for entry in archive:
                if entry.name.endswith(".jpg"):
                    path = os.path.join(folder, entry.name)
                    with open(path, "wb") as out:
                        out.write(archive.extractfile(entry).read())
                    found.append(path)
        if not os.environ.get("LARDER_LONG"):  # they differ less than the made-up ones do
            found = found[::4]
    else:
        print("no photographs in shared data: made-up pictures only")
    noise = np.random.default_rng(7)
    for i, (w, h) in enumerate([(320, 240), (97, 211), (500, 375), (64, 64), (33, 400)]):
        grid = np.add.outer(np.arange(h), np.arange(w)) % 256
        pixels = np.stack([grid, grid[::-1], grid[:, ::-1]], 2) // 2 + noise.integers(
            0, 120, (h, w, 3))
        image = Image.fromarray(pixels.astype(np.uint8))
        forms = {"444.jpg": dict(subsampling=0), "422.jpg": dict(subsampling=1),
                 "420.jpg": dict(subsampling=2), "p.jpg": dict(progressive=True), "rgb.png": {}}
        for name, options in forms.items():
            found.append(os.path.join(folder, f"made-{i}-{name}"))
            image.save(found[-1], **options)
        for mode, name in [("L", "grey.jpg"), ("CMYK", "cmyk.jpg"), ("L", "grey.png"),
                           ("P", "palette.png"), ("1", "bits.png"), ("RGBA", "alpha.png"),
                           ("LA", "grey-alpha.png")]:
            found.append(os.path.join(folder, f"made-{i}-{name}"))
            image.convert(mode).save(found[-1])
    return found


def opened(path):
    return Image.open(path).convert("RGB")


def test_decode(paths):
    for path in paths:
        want = np.asarray(opened(path))
        h, w, _ = want.shape
        got = run(f"centercrop:h={h},w={w}", [path], want.shape)[0]
        check(np.array_equal(got, want), f"decode {os.path.basename(path)}: "
              f"{np.count_nonzero(got != want)} bytes differ")


def worst(got, want):
    return int(np.abs(got.astype(int) - np.asarray(want).astype(int)).max())


def test_resize(paths):
    specs = [("resize:h=224,w=224,gap=0", T.Resize((224, 224)), (224, 224)),
             ("resize:h=31,w=77,gap=0", T.Resize((31, 77)), (31, 77)),
             ("resize:h=500,w=640,gap=0", T.Resize((500, 640)), (500, 640)),
             ("resize:size=256,gap=0|centercrop:size=224",
              T.Compose([T.Resize(256), T.CenterCrop(224)]), (224, 224)),
             ("resize:size=64,gap=0|centercrop:h=63,w=61",
              T.Compose([T.Resize(64), T.CenterCrop((63, 61))]), (63, 61)),
             ("centercrop:size=100|resize:h=41,w=53",
              T.Compose([T.CenterCrop(100), T.Resize((41, 53))]), (41, 53))]
    for spec, transform, (h, w) in specs:
        few = paths if "resize:h=224" in spec or "256" in spec else paths[::4]
        if spec.startswith("centercrop"):  # larder refuses to resize padding
            few = [p for p in few if min(Image.open(p).size) >= 100]
        for path, got in zip(few, run(spec, few, (h, w, 3))):
            bad = worst(got, transform(opened(path)))
            check(bad <= 1, f"{spec} {os.path.basename(path)}: off by {bad}")


def test_shrunk_decode(paths):
    """With DCT scaling pixels may differ, but hardly: gap=2 is the default, gap=1 the limit."""
    large = [p for p in paths if min(Image.open(p).size) >= 300 and p.endswith(".jpg")
             and "made" not in p]
    for gap, limit in [(2, 1.5), (1, 4.0)]:
        for path, got in zip(large, run(f"resize:h=72,w=72,gap={gap}", large, (72, 72, 3))):
            want = np.asarray(T.Resize((72, 72))(opened(path))).astype(int)
            mean = np.abs(got.astype(int) - want).mean()
            check(mean <= limit, f"gap={gap} {os.path.basename(path)}: mean difference {mean:.2f}")


def test_centercrop(paths):
    for size in [(10, 11), (97, 98), (301, 299), (600, 1200)]:  # smaller, odd, padded
        spec = f"centercrop:h={size[0]},w={size[1]}"
        few = paths[::3]
        for path, got in zip(few, run(spec, few, size + (3,))):
            check(np.array_equal(got, np.asarray(T.CenterCrop(size)(opened(path)))),
                  f"{spec} {os.path.basename(path)} differs")


def test_flip_normalize(paths):
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    chain = T.Compose([T.CenterCrop(200), T.RandomHorizontalFlip(1.0), T.ToTensor(),
                       T.Normalize(mean, std)])
    few = paths[::3]
    want = np.stack([chain(opened(p)).numpy().transpose(1, 2, 0) for p in few])
    for layout in ["nchw", "nhwc"]:
        for tone in ["preset=imagenet", "mean=0.485/0.456/0.406,std=0.229/0.224/0.225"]:
            got = run(f"centercrop:size=200|flip:p=1|normalize:{tone}", few, (200, 200, 3), "f32",
                      layout)
            check(np.abs(got - want).max() < 3e-6, f"normalize {tone} {layout}: "
                  f"off by {np.abs(got - want).max()}")
    plain = run("centercrop:size=200", few, (200, 200, 3), "f32", "nchw")
    want = np.stack([T.ToTensor()(T.CenterCrop(200)(opened(p))).numpy().transpose(1, 2, 0)
                     for p in few])
    check(np.abs(plain - want).max() < 1e-6, "f32 without normalize is not ToTensor")


def test_pad_crop(folder):
    """Each result is one of the 81 windows of the padded picture, and all turn up."""
    pixels = np.random.default_rng(3).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    path = os.path.join(folder, "raw")
    pixels.tofile(path)
    padded = F.pad(Image.fromarray(pixels), 4)
    windows = {np.asarray(F.crop(padded, y, x, 32, 32)).tobytes(): (y, x)
               for y in range(9) for x in range(9)}
    draws = 8100
    got = run("crop:size=32,pad=4", [path] * draws, (32, 32, 3), raw="32x32x3")
    counts = {}
    for one in got:
        at = windows.get(one.tobytes())
        check(at is not None, "crop:size=32,pad=4 is none of the windows")
        counts[at] = counts.get(at, 0) + 1
    chi = sum((counts.get((y, x), 0) - draws / 81) ** 2 / (draws / 81)
              for y in range(9) for x in range(9))
    check(chi < 80 + 5 * math.sqrt(160), f"crop places are not uniform: chi2 {chi:.0f} of 80")
    flipped = run("flip", [path] * 4000, (32, 32, 3), raw="32x32x3")
    share = np.mean([one.tobytes() != pixels.tobytes() for one in flipped])
    check(abs(share - 0.5) < 5 * math.sqrt(0.25 / 4000), f"flip happens with {share}")


def ks(a, b):
    """Largest distance between two empirical distributions."""
    both = np.concatenate([a, b])
    return np.abs(np.searchsorted(np.sort(a), both, "right") / len(a)
                  - np.searchsorted(np.sort(b), both, "right") / len(b)).max()


def test_rrc(folder):
    """Crop boxes are read off a picture that holds its own coordinates, and compared with
    torchvision's own draws: area, ratio and place."""
    w, h, n = 250, 180, 3000
    x, y = np.meshgrid(np.arange(w), np.arange(h))
    pixels = np.stack([x, y, 0 * x], 2).astype(np.uint8)
    path = os.path.join(folder, "place.raw")
    pixels.tofile(path)
    got = run("rrc:h=2,w=2", [path] * n, (2, 2, 3), raw=f"{h}x{w}x3").astype(float)
    want = [T.RandomResizedCrop.get_params(Image.new("RGB", (w, h)), (0.08, 1.0), (3 / 4, 4 / 3))
            for _ in range(n)]
    # Two pixels of a triangle filter over a ramp stand half the box apart, less what the cut-off
    # at the edges takes: calibrate the factor on torchvision's own boxes.
    image = Image.fromarray(pixels)
    twin = np.stack([np.asarray(F.resized_crop(image, *box, (2, 2))) for box in want]).astype(float)
    def features(a):
        wide, tall = a[:, 0, 1, 0] - a[:, 0, 0, 0], a[:, 1, 0, 1] - a[:, 0, 0, 1]
        return {"area": wide * tall, "ratio": np.log(wide / tall), "x": a[:, 0, :, 0].mean(1),
                "y": a[:, :, 0, 1].mean(1)}
    theirs, limit = features(twin), 1.95 * math.sqrt(2 / n)  # one in a thousand
    for name, values in features(got).items():
        distance = ks(values, theirs[name])
        check(distance < limit, f"rrc {name}: distributions are {distance:.3f} apart")


def main():
    torch.manual_seed(7)  # or one run in some hundred would draw what no bound allows
    with tempfile.TemporaryDirectory() as folder:
        paths = pictures(folder)
        test_decode(paths)
        test_resize(paths)
        test_shrunk_decode(paths)
        test_centercrop(paths)
        test_flip_normalize(paths)
        test_pad_crop(folder)
        test_rrc(folder)
    print(f"{len(failures)} failed, {len(paths)} pictures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
