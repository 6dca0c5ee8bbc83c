#!/usr/bin/env python3
"""Stages that change pixels against torchvision on PIL pictures: with the same parameters every level
within 1, by chance the same distributions; and on tensors (of v2 where there is one), where that does the
same as on PIL pictures. Exits with 77 where torchvision or the tool is missing."""
import math
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    import torchvision.transforms as T
    import torchvision.transforms.functional as F
    from PIL import Image
    from torchvision.transforms import autoaugment as A
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TOOL = os.environ.get("TOOL_STAGE", os.path.join(os.environ.get("LARDER_BUILD", "build"), "tool_stage"))
if not os.access(TOOL, os.X_OK):
    print(f"skipped: no {TOOL}")
    sys.exit(77)

try:
    import torchvision.transforms.v2.functional as V
except ImportError:
    V = F

failures = []
NEAR, LINE, CUBIC = T.InterpolationMode.NEAREST, T.InterpolationMode.BILINEAR, T.InterpolationMode.BICUBIC


def check(right, what):
    if not right:
        failures.append(what)
        print("FAILED:", what)


class Pictures:
    """Small ones, raw, so that no decoder comes in between: noise, colours with edges, dark, grey."""

    def __init__(self, folder):
        random = np.random.default_rng(11)
        y, x = np.mgrid[:47, :61]
        waves = np.stack([128 + 120 * np.sin(x / 7), 128 + 120 * np.cos(y / 5), (x * y) % 256], 2)
        steps = np.stack([x // 8 * 30, y // 8 * 40, (x + y) // 9 * 17], 2) % 256
        self.all = [random.integers(0, 256, (47, 61, 3)), waves, steps, steps // 4 + 20,
                    np.repeat(waves[:, :, :1], 3, 2)]
        self.all = [p.astype(np.uint8) for p in self.all]
        self.paths = []
        for i, p in enumerate(self.all):
            self.paths.append(os.path.join(folder, str(i)))
            p.tofile(self.paths[-1])

    def run(self, spec, shape=None, times=1, which=None, dtype="u8", seed=0):
        paths = self.paths if which is None else [self.paths[which]]
        h, w = shape or (47, 61)
        done = subprocess.run([TOOL, spec, dtype, "nhwc", str(seed), "47x61x3"], check=False,
                              input="\n".join(paths * times).encode(), capture_output=True)
        if done.returncode:
            check(False, f"{spec}: {done.stderr.decode().strip()}")
            return np.zeros((len(paths) * times, h, w, 3), np.uint8)
        return np.frombuffer(done.stdout, np.uint8 if dtype == "u8" else np.float32).reshape(-1, h, w, 3)


def worst(got, want):
    want = np.asarray(want).astype(int)
    return int(np.abs(got.astype(int) - want).max()) if got.shape == want.shape else 999


def same(pictures, spec, f, shape=None, limit=1):
    for i, got in enumerate(pictures.run(spec, shape)):
        off = worst(got, f(Image.fromarray(pictures.all[i])))
        check(off <= limit, f"{spec}: picture {i} off by {off}")


def blurred(kernel, sigma):
    return lambda p: F.gaussian_blur(p, kernel, sigma)


def test_parameters(p):
    for name, f in [("brightness", F.adjust_brightness), ("contrast", F.adjust_contrast),
                    ("saturation", F.adjust_saturation)]:
        for by in [0, 0.3, 1.7, 4]:
            same(p, f"jitter:{name}={by}/{by}", lambda i, f=f, by=by: f(i, by), limit=0)
    for by in [-0.5, -0.13, 0.02, 0.31, 0.5]:
        same(p, f"jitter:hue={by}/{by}", lambda i, by=by: F.adjust_hue(i, by))
    same(p, "grey:p=1", lambda i: F.to_grayscale(i, 3), limit=0)
    same(p, "invert:p=1", F.invert, limit=0)
    same(p, "equalize:p=1", F.equalize, limit=0)
    same(p, "autocontrast:p=1", F.autocontrast, limit=0)
    for by in [0, 1, 77.5, 128, 255, 256]:
        same(p, f"solarize:threshold={by},p=1", lambda i, by=by: F.solarize(i, by), limit=0)
    for by in [0, 1, 4, 8]:
        same(p, f"posterize:bits={by},p=1", lambda i, by=by: F.posterize(i, by), limit=0)
    for by in [0, 0.4, 2, 5]:
        same(p, f"sharpness:factor={by},p=1", lambda i, by=by: F.adjust_sharpness(i, by))
    same(p, "blur:kernel=5/9,sigma=1.3", blurred([5, 9], [1.3, 1.3]))
    same(p, "blur:kernel=3,sigma=0.1", blurred(3, 0.1))
    same(p, "blur:kernel=23,sigma=2", blurred(23, 2.0))
    same(p, "vflip:p=1", F.vflip, limit=0)


def test_geometry(p):
    for degrees in [0, 12.5, -33, 90, 180, 271]:
        for name, mode in [("nearest", NEAR), ("bilinear", LINE), ("bicubic", CUBIC)]:
            same(p, f"rotation:degrees={degrees}/{degrees},interpolation={name},fill=10/20/30",
                 lambda i, d=degrees, m=mode: F.rotate(i, d, m, fill=[10, 20, 30]),
                 limit=0 if mode == NEAR else 1)
    want = np.asarray(F.rotate(Image.fromarray(p.all[1]), 30, expand=True))
    same(p, "rotation:degrees=30/30,expand=yes", lambda i: F.rotate(i, 30, expand=True), want.shape[:2],
         limit=0)
    for angle, scale, shear in [(0, 1.3, (0, 0)), (25, 0.8, (0, 0)), (-70, 1, (12, 0)), (5, 2, (-20, 14))]:
        for name, mode in [("nearest", NEAR), ("bilinear", LINE)]:
            spec = (f"affine:degrees={angle}/{angle},scale={scale},interpolation={name},"
                    f"shear={shear[0]}/{shear[0]}/{shear[1]}/{shear[1]}")
            same(p, spec, lambda i, a=angle, s=scale, h=shear, m=mode: F.affine(i, a, (0, 0), s, h, m),
                 limit=0 if mode == NEAR else 1)
    for mode in ["constant", "edge", "reflect", "symmetric"]:
        same(p, f"pad:by=3/5/7/1,fill=9/8/7,mode={mode}",
             lambda i, m=mode: F.pad(i, [3, 5, 7, 1], (9, 8, 7), m), (53, 71), limit=0)
    same(p, "jitter:brightness=1.5/1.5|centercrop:size=40|flip:p=1|posterize:bits=3,p=1",
         lambda i: F.posterize(F.hflip(F.center_crop(F.adjust_brightness(i, 1.5), 40)), 3), (40, 40), 0)
    same(p, "resize:h=90,w=33|resize:h=20,w=50", lambda i: F.resize(F.resize(i, (90, 33)), (20, 50)),
         (20, 50), 2)  # both round


def tensor_resize(size, mode):
    def f(i):
        return F.resize(F.pil_to_tensor(i), size, mode, antialias=False).permute(1, 2, 0).numpy()
    return f


def test_filters(p):
    for h, w in [(20, 31), (90, 100), (47, 13), (33, 33), (10, 183)]:
        for name, mode in [("nearest", NEAR), ("bilinear", LINE), ("bicubic", CUBIC)]:
            same(p, f"resize:h={h},w={w},interpolation={name}",
                 lambda i, s=(h, w), m=mode: F.resize(i, s, m), (h, w), 0 if mode == NEAR else 1)
        same(p, f"resize:h={h},w={w},antialias=no", tensor_resize((h, w), LINE), (h, w))
        same(p, f"resize:h={h},w={w},interpolation=bicubic,antialias=no", tensor_resize((h, w), CUBIC),
             (h, w))
    want = T.Resize(30, max_size=35)(Image.fromarray(p.all[0]))
    same(p, "resize:size=30,max=35", lambda i: F.resize(i, 30, max_size=35), want.size[::-1])


def on_tensors(pictures, spec, f, shape=None):
    """How far apart at most, over all pictures."""
    off = 0
    for i, got in enumerate(pictures.run(spec, shape)):
        want = f(torch.from_numpy(pictures.all[i]).permute(2, 0, 1).contiguous())
        off = max(off, worst(got, want.permute(1, 2, 0)))
    return off


def test_tensors(p):
    """torchvision's two ways differ from each other: on tensors hue is not rounded to 256 levels, a turned
    picture is blended with what is outside of it, and a half goes to the other neighbour. larder does as PIL
    pictures are done; how far that is from tensors is printed."""
    equal = [("jitter:brightness=0.3/0.3", lambda i: V.adjust_brightness(i, 0.3)),
             ("jitter:brightness=1.7/1.7", lambda i: V.adjust_brightness(i, 1.7)),
             ("jitter:contrast=0.6/0.6", lambda i: V.adjust_contrast(i, 0.6)),
             ("jitter:saturation=1.4/1.4", lambda i: V.adjust_saturation(i, 1.4)),
             ("grey:p=1", lambda i: V.rgb_to_grayscale(i, 3)), ("invert:p=1", V.invert),
             ("equalize:p=1", V.equalize), ("autocontrast:p=1", V.autocontrast),
             ("solarize:threshold=77,p=1", lambda i: V.solarize(i, 77)),
             ("posterize:bits=3,p=1", lambda i: V.posterize(i, 3)),
             ("sharpness:factor=0.4,p=1", lambda i: V.adjust_sharpness(i, 0.4)),
             ("sharpness:factor=2,p=1", lambda i: V.adjust_sharpness(i, 2)),
             ("blur:kernel=5/9,sigma=1.3", lambda i: V.gaussian_blur(i, [5, 9], [1.3, 1.3])),
             ("vflip:p=1", V.vflip), ("flip:p=1", V.hflip),
             ("rotation:degrees=90/90,interpolation=bilinear", lambda i: V.rotate(i, 90, LINE)),
             ("rotation:degrees=180/180", lambda i: V.rotate(i, 180))]
    for spec, f in equal:
        off = on_tensors(p, spec, f)
        check(off <= 1, f"{spec}: off by {off} on tensors")
    for h, w in [(20, 31), (90, 100), (47, 13), (10, 183)]:
        # Before v2 bicubic did not round between its two passes, as PIL does.
        for name, mode in [("bilinear", LINE)] + ([] if V is F else [("bicubic", CUBIC)]):
            off = on_tensors(p, f"resize:h={h},w={w},interpolation={name}",
                             lambda i, s=[h, w], m=mode: V.resize(i, s, m, antialias=True), (h, w))
            check(off <= 1, f"resize to {h} x {w} {name}: off by {off} on tensors")
    for mode in ["edge", "reflect", "symmetric"]:
        off = on_tensors(p, f"pad:by=3/5/7/1,mode={mode}",
                         lambda i, m=mode: V.pad(i, [3, 5, 7, 1], padding_mode=m), (53, 71))
        check(off == 0, f"pad {mode}: off by {off} on tensors")
    for spec, f in [("jitter:hue=0.1/0.1", lambda i: V.adjust_hue(i, 0.1)),
                    ("jitter:hue=0.5/0.5", lambda i: V.adjust_hue(i, 0.5)),
                    ("jitter:contrast=4/4", lambda i: V.adjust_contrast(i, 4)),
                    ("jitter:saturation=4/4", lambda i: V.adjust_saturation(i, 4)),
                    ("rotation:degrees=12.5/12.5,interpolation=bilinear", lambda i: V.rotate(i, 12.5, LINE))]:
        print(f"{spec}: {on_tensors(p, spec, f)} levels from {V.__name__} on tensors")


def test_drawn_operations(p):
    """One operation by chance is one of those torchvision has at that magnitude; how often which."""
    image = Image.fromarray(p.all[1])
    cases = [("randaugment:ops=1,magnitude=9", A.RandAugment()._augmentation_space(31, (47, 61)), [9]),
             ("randaugment:ops=1,magnitude=4,bins=10,interpolation=bilinear,fill=99",
              A.RandAugment()._augmentation_space(10, (47, 61)), [4]),
             ("trivialaugment:bins=5", A.TrivialAugmentWide()._augmentation_space(5), range(5))]
    for spec, space, bins in cases:
        look = dict(interpolation=LINE, fill=[99.0] * 3) if "fill" in spec else dict(interpolation=NEAR,
                                                                                     fill=None)
        wanted, share = [], []
        for name, (magnitudes, signed) in space.items():
            for b in bins if magnitudes.ndim else [0]:
                for sign in [1, -1] if signed else [1]:
                    by = float(magnitudes[b]) if magnitudes.ndim else 0.0
                    wanted.append(np.asarray(A._apply_op(image, name, sign * by, **look)).astype(int))
                    share.append(1 / len(space) / (len(bins) if magnitudes.ndim else 1) /
                                 (2 if signed else 1))
        draws = 400
        got = p.run(spec, times=draws, which=1).astype(int)
        flat, counts = np.stack([w.ravel() for w in wanted]), np.zeros(len(wanted))
        for g in got:
            off = np.abs(flat - g.ravel()).max(1)
            check(off.min() <= 1, f"{spec}: no operation of torchvision's, off by {off.min()}")
            near = off <= 1  # several may be the same: they share it
            counts[near] += np.asarray(share)[near] / np.asarray(share)[near].sum()
        expected = np.asarray(share) * draws
        check((np.abs(counts - expected) < 5.5 * np.sqrt(expected) + 1).all(),
              f"{spec}: operations come {counts} times, not {expected}")


def test_autoaugment(p):
    """How often each result comes, of both: there are few enough to count."""
    image = Image.fromarray(p.all[2])
    for name, policy in [("imagenet", A.AutoAugmentPolicy.IMAGENET), ("cifar10", A.AutoAugmentPolicy.CIFAR10),
                         ("svhn", A.AutoAugmentPolicy.SVHN)]:
        theirs, draws = A.AutoAugment(policy), 300
        want = [np.asarray(theirs(image)).astype(int).mean((0, 1)) for _ in range(draws)]
        got = [g.astype(int).mean((0, 1)) for g in p.run(f"autoaugment:policy={name}", times=draws, which=2)]
        for c in range(3):
            a, b = np.sort([w[c] for w in want]), np.sort([g[c] for g in got])
            both = np.concatenate([a, b])
            off = np.abs(np.searchsorted(a, both + 0.02) - np.searchsorted(b, both + 0.02)).max() / draws
            check(off < 2.1 * math.sqrt(2 / draws), f"autoaugment {name}: {off:.3f} apart")


def ks(a, b):
    both = np.concatenate([a, b])
    return np.abs(np.searchsorted(np.sort(a), both, "right") / len(a)
                  - np.searchsorted(np.sort(b), both, "right") / len(b)).max()


def test_chance(p):
    """Means of pictures, or where a bright spot went, drawn by both."""
    image, draws = Image.fromarray(p.all[1]), 250
    cases = [("jitter:brightness=0.4,contrast=0.3,saturation=0.5,hue=0.1", T.ColorJitter(0.4, 0.3, 0.5, 0.1)),
             ("jitter:brightness=0.2/0.9,p=0.7", T.RandomApply([T.ColorJitter((0.2, 0.9))], 0.7)),
             ("blur:kernel=9,sigma=0.1/3", T.GaussianBlur(9, (0.1, 3))),
             ("rotation:degrees=40", T.RandomRotation(40)),
             ("affine:degrees=10,translate=0.2/0.1,scale=0.7/1.2,shear=5",
              T.RandomAffine(10, (0.2, 0.1), (0.7, 1.2), 5)),
             ("grey:p=0.3", T.RandomGrayscale(0.3)), ("solarize:threshold=100", T.RandomSolarize(100)),
             ("equalize:p=0.2", T.RandomEqualize(0.2))]
    for spec, theirs in cases:
        got = p.run(spec, times=draws, which=1).astype(float)
        want = np.stack([np.asarray(theirs(image)) for _ in range(draws)]).astype(float)
        for what, f in [("mean", lambda a: a.mean((1, 2, 3))), ("left", lambda a: a[:, :, :9].mean((1, 2, 3))),
                        ("spread", lambda a: a.std((1, 2, 3))), ("red", lambda a: a[:, 9:30, :, 0].mean((1, 2)))]:
            off = ks(np.round(f(got), 2), np.round(f(want), 2))
            check(off < 2.2 * math.sqrt(2 / draws), f"{spec}: {what} {off:.3f} apart")


def test_erase(p):
    image, draws = F.to_tensor(Image.fromarray(p.all[0] | 1)), 400
    for spec, value, after in [("erase:p=0.8,scale=0.1/0.4", 0, lambda t: t),
                               ("erase:p=0.8,scale=0.1/0.4,value=0.5/0.25/1|normalize:mean=0.5,std=0.5",
                                (0.5, 0.25, 1), lambda t: (t - 0.5) / 0.5)]:
        theirs = T.RandomErasing(0.8, (0.1, 0.4), value=value)
        filled = np.asarray(value if isinstance(value, tuple) else (value,) * 3, np.float32)
        want = np.stack([after(theirs(image)).permute(1, 2, 0).numpy() for _ in range(draws)])
        got = p.run(spec, times=draws, which=0, dtype="f32")
        level = np.asarray([after(float(v)) for v in filled], np.float32)
        a, b = ((np.abs(x - level).max(3) < 1e-5) for x in (got, want))
        for what, f in [("area", lambda m: m.sum((1, 2))), ("height", lambda m: m.any(2).sum(1)),
                        ("x", lambda m: (m.any(1) * np.arange(61)).sum(1))]:
            off = ks(f(a), f(b))
            check(off < 2.2 * math.sqrt(2 / draws), f"{spec}: {what} {off:.3f} apart")
        kept = ~a
        plain = after(F.to_tensor(Image.fromarray(p.all[0]))).permute(1, 2, 0).numpy()
        check(np.abs(np.where(kept[..., None], got - plain, 0)).max() < 1e-5, f"{spec}: the rest changes")
    noise = p.run("erase:p=1,value=random,scale=0.5/0.9", times=60, which=3, dtype="f32")
    new = noise[np.abs(noise - p.all[3].astype(np.float32) / 255).max(3) > 1e-6]
    check(abs(new.mean()) < 0.05 and abs(new.std() - 1) < 0.05, f"noise of {new.mean()}, {new.std()}")
    holes = (p.run("cutout:size=8,holes=1", times=300, which=3) == 0).all(3).sum((1, 2))
    check(holes.max() == 64 and holes.min() >= 16, f"cutout of {holes.min()} to {holes.max()} pixels")


def main():
    torch.manual_seed(5)  # or one run in some hundred would draw what no bound allows
    with tempfile.TemporaryDirectory() as folder:
        p = Pictures(folder)
        for test in [test_parameters, test_geometry, test_filters, test_tensors, test_drawn_operations, test_autoaugment,
                     test_chance, test_erase]:
            test(p)
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
