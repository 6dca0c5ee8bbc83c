"""torchvision's transforms as native stages: what they become, and that pixels are the same; views, mixed batches and
types of 16 bits."""

import os
import sys
import tempfile
import unittest

import kit  # noqa: F401  (skips where PyTorch is missing)
import numpy as np
import torch

import larder
from larder._translate import translate

try:
    import torchvision.transforms as T
    from PIL import Image
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NEAR, CUBIC = T.InterpolationMode.NEAREST, T.InterpolationMode.BICUBIC

TEXTS = [
    (T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)]),
     "rrc:size=224,scale=0.08/1,ratio=0.75/1.3333333333333333|flip:p=0.5|"
     "normalize:mean=0.485/0.456/0.406,std=0.229/0.224/0.225", "float32"),
    (T.Compose([T.Resize(256), T.CenterCrop((224, 200)), T.PILToTensor()]),
     "resize:size=256|centercrop:h=224,w=200", "uint8"),
    (T.Compose([T.RandomCrop(32, padding=4, fill=9, padding_mode="constant"), T.ToTensor(), T.RandomVerticalFlip(0.3)]),
     "crop:size=32,pad=4,fill=9|vflip:p=0.3", "float32"),
    (T.RandomCrop(32, padding=[1, 2, 3, 4], padding_mode="reflect"),
     "pad:by=1/2/3/4,mode=reflect|crop:size=32", None),
    (T.RandomCrop((30, 20), pad_if_needed=True), "crop:h=30,w=20,enough=yes", None),
    (T.ColorJitter(0.4, 0.4, 0.2, 0.1),
     "jitter:brightness=0.6/1.4,contrast=0.6/1.4,saturation=0.8/1.2,hue=-0.1/0.1", None),
    (T.Compose([T.RandomApply([T.ColorJitter(hue=0.1)], 0.8), T.RandomGrayscale(0.2),
                T.RandomApply([T.GaussianBlur(23, (0.1, 2.0))], 0.5), T.RandomApply([T.RandomGrayscale(0.5)], 0.5)]),
     "jitter:hue=-0.1/0.1,p=0.8|grey:p=0.2|blur:kernel=23/23,sigma=0.1/2,p=0.5|grey:p=0.25", None),
    (T.Compose([T.RandomSolarize(128, 0.2), T.RandomPosterize(3), T.RandomEqualize(), T.RandomAutocontrast(0.1),
                T.RandomInvert(), T.RandomAdjustSharpness(2)]),
     "solarize:threshold=128,p=0.2|posterize:bits=3,p=0.5|equalize:p=0.5|autocontrast:p=0.1|invert:p=0.5|"
     "sharpness:factor=2,p=0.5", None),
    (T.Compose([T.RandomRotation(20, CUBIC, expand=True, fill=5), T.RandomAffine(10, (0.1, 0.2), (0.5, 2), 5)]),
     "rotation:degrees=-20/20,interpolation=bicubic,fill=5,expand=yes|"
     "affine:degrees=-10/10,translate=0.1/0.2,scale=0.5/2,shear=-5/5", None),
    (T.Compose([T.RandAugment(3, 7, 11), T.TrivialAugmentWide(fill=[1, 2, 3]), T.AutoAugment()]),
     "randaugment:ops=3,magnitude=7,bins=11|trivialaugment:bins=31,fill=1/2/3|autoaugment:policy=imagenet", None),
    (T.Compose([T.ToTensor(), T.RandomErasing(0.1, value="random"), T.Normalize((0.5,), (0.5,)),
                T.ConvertImageDtype(torch.float16)]),
     "erase:p=0.1,scale=0.02/0.33,ratio=0.3/3.3,value=random|normalize:mean=0.5,std=0.5", "float16"),
    (T.Compose([T.PILToTensor(), T.Resize((8, 9), antialias=False), T.ConvertImageDtype(torch.float32)]),
     "resize:h=8,w=9,antialias=no", "float32"),
    (T.Resize(30, CUBIC, max_size=50), "resize:size=30,max=50,interpolation=bicubic", None),
]


class Mine(T.Resize):
    pass


UNKNOWN = [(T.RandomPerspective(), "RandomPerspective"), (T.Lambda(lambda x: x), "Lambda"), (Mine(8), "Mine"),
           (T.Compose([T.ToTensor(), T.RandomRotation(9)]), "RandomRotation: a transform of pixels after"),
           (T.Compose([T.ToTensor(), T.Normalize(MEAN, STD), T.RandomHorizontalFlip()]), "RandomHorizontalFlip"),
           (T.RandomRotation(3, center=(1, 2)), "center"), (T.Grayscale(1), "one channel"),
           (T.RandomApply([T.RandomRotation(3)]), "RandomApply"), (T.Resize(8, T.InterpolationMode.LANCZOS), "lanczos"),
           (T.RandomChoice([T.RandomInvert()]), "RandomChoice"), (T.Normalize(MEAN, STD), "whole numbers")]

FORCED = [  # no chance in them: compared pixel by pixel
    [T.Resize((40, 52)), T.CenterCrop(36), T.RandomHorizontalFlip(1.0), T.ToTensor(), T.Normalize(MEAN, STD)],
    [T.Resize((40, 52), CUBIC), T.ColorJitter((1.3, 1.3)), T.RandomRotation((20, 20), fill=9), T.Pad(3, 200),
     T.ToTensor()],
    [T.Resize((33, 33), NEAR), T.RandomAdjustSharpness(2, 1.0), T.GaussianBlur(5, (1.0, 1.0)), T.RandomEqualize(1.0),
     T.CenterCrop(40), T.RandomVerticalFlip(1.0), T.PILToTensor()],
    [T.Resize((40, 41), NEAR), T.RandomAffine((7, 7), scale=(1.2, 1.2), shear=(3, 3)), T.RandomInvert(1.0),
     T.ColorJitter(hue=(0.2, 0.2)), T.ToTensor(), T.ConvertImageDtype(torch.float16)],
]


class Translation(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        random = np.random.default_rng(3)
        self.pictures = []
        for i in range(6):
            y, x = np.mgrid[: 50 + i, : 60 - i]
            p = np.stack([(x * 5 + y * i) % 256, (x * y) % 256, random.integers(0, 256, x.shape)], 2).astype(np.uint8)
            self.pictures.append(Image.fromarray(p))
            os.makedirs(f"{self.folder.name}/{i % 2}", exist_ok=True)
            self.pictures[-1].save(f"{self.folder.name}/{i % 2}/{i}.png")
        self.pictures = self.pictures[0::2] + self.pictures[1::2]

    def tearDown(self):
        self.folder.cleanup()

    def loader(self, augment, **given):
        return larder.Loader(self.folder.name, 6, augment=augment, shuffle=given.pop("shuffle", False), **given)

    def test_texts(self):
        for transforms, text, dtype in TEXTS:
            with self.subTest(text):
                said = translate(transforms)
                self.assertEqual((said.text, said.dtype), (text, dtype), said.why)

    def test_what_is_not_known(self):
        for transforms, word in UNKNOWN:
            said = translate(transforms)
            self.assertIsNone(said.text, word)
            self.assertIn(word, said.why)

    def test_not_known_runs_in_workers(self):
        chain = T.Compose([T.Resize((8, 8)), T.RandomPerspective(p=0), T.ToTensor()])
        want = torch.stack([chain(p) for p in self.pictures])
        with self.assertWarnsRegex(larder.LarderWarning, "RandomPerspective: there is no such stage.* in 2 worker"):
            loader = self.loader(chain, workers=2)
        with loader:
            batch = next(iter(loader))
            self.assertEqual(loader.augment, "Compose (own code)")
        self.assertLessEqual((batch.x - want).abs().max().item(), 1.05 / 255)
        self.assertEqual(batch.y.tolist(), [0, 0, 0, 1, 1, 1])
        data = larder.Dataset(self.folder.name, augment=chain)  # whose workers are a DataLoader's
        self.assertLessEqual((data[0][0] - want[0]).abs().max().item(), 1.05 / 255)
        data.close()

    def test_known_says_so(self):
        with self.loader(T.Compose([T.Resize((8, 8)), T.ToTensor()])) as loader:
            self.assertEqual(loader.augment, "resize:h=8,w=8")

    def test_pixels(self):
        for transforms in FORCED:
            chain = T.Compose(transforms)
            want = torch.stack([chain(p) for p in self.pictures])
            with self.loader(chain) as loader:
                got = next(iter(loader)).x
            self.assertEqual((got.shape, got.dtype), (want.shape, want.dtype))
            level = 1 if want.dtype == torch.uint8 else 1 / 255 / (min(STD) if "Normalize" in repr(chain) else 1)
            limit = level * (2.05 if CUBIC in [getattr(t, "interpolation", 0) for t in transforms]
                             or want.dtype == torch.uint8 else 1.05)  # one level, through the stages that follow
            if "equalize" in repr(chain).lower():
                limit = 12  # a level more or less changes how often levels occur
            self.assertLessEqual((got.float() - want.float()).abs().max().item(), limit, repr(chain))

    def test_chance(self):
        chain = T.Compose([T.RandomResizedCrop(16), T.RandomHorizontalFlip(), T.ColorJitter(0.4), T.ToTensor()])
        torch.manual_seed(1)
        want = [chain(self.pictures[0]).mean().item() for _ in range(200)]
        data = larder.Dataset(self.folder.name, augment=chain)
        got = [data[0][0].mean().item() for _ in range(200)]
        data.close()
        self.assertLess(abs(np.mean(want) - np.mean(got)), 4 * np.std(want) / 10)
        self.assertLess(abs(np.std(want) / np.std(got) - 1), 0.3)

    def test_views(self):
        with self.loader("rrc:size=12|flip", views=3, dtype="uint8") as loader:
            x = next(iter(loader)).x
        with self.loader("rrc:size=12|flip", dtype="uint8") as loader:
            one = next(iter(loader)).x
        self.assertEqual(tuple(x.shape), (6, 3, 3, 12, 12))
        self.assertTrue(torch.equal(x[:, 0], one))
        self.assertFalse(torch.equal(x[:, 1], one))
        self.assertFalse(torch.equal(x[:, 1], x[:, 2]))
        with self.assertRaisesRegex(larder.ArgumentError, "views"):
            self.loader("rrc:size=12", views=2, fields="png")

    def test_types_of_16_bits(self):
        spec = "resize:h=9,w=7|normalize:preset=imagenet"
        for layout in ("NCHW", "NHWC"):
            with self.loader(spec, layout=layout) as loader:
                want = next(iter(loader)).x
            for name in ("float16", "bfloat16"):
                with self.loader(spec, dtype=name, layout=layout) as loader:
                    got = next(iter(loader)).x
                self.assertEqual(got.dtype, getattr(torch, name))
                self.assertTrue(torch.equal(got, want.to(got.dtype)))

    def mixed(self, stage, seed, **given):
        with self.loader("resize:h=20,w=18", seed=seed, **given) as loader:
            plain = next(iter(loader))
            x, y = plain.x.clone().float(), plain.y.clone()
            self.assertEqual(plain.mix_weight, 1)
        with self.loader(f"resize:h=20,w=18|{stage}", seed=seed, **given) as loader:
            b = next(iter(loader))
            return x, y, b.x.clone().float(), b

    def test_mixup(self):
        weights = []
        for seed in range(4):
            for dtype, close in (("float32", 1e-6), ("uint8", 0.51), ("float16", 1e-3), ("bfloat16", 1e-2)):
                x, y, got, b = self.mixed("mixup:p=1", seed, dtype=dtype)
                w = b.mix_weight
                self.assertLessEqual((got - (x * w + x.roll(1, 0) * (1 - w))).abs().max().item(), close)
                self.assertEqual(list(b.mix_with), [5, 0, 1, 2, 3, 4])
                soft = b.mixed_targets(2)
                want = torch.nn.functional.one_hot(y, 2) * w + torch.nn.functional.one_hot(y.roll(1), 2) * (1 - w)
                self.assertLess((soft - want).abs().max().item(), 1e-6)
                self.assertTrue(torch.equal(b.to("cpu").mixed_targets(2), soft))
            weights.append(w)
        self.assertEqual(len(set(weights)), 4)

    def test_cutmix(self):
        changed = 0
        for seed in range(6):
            for layout in ("NCHW", "NHWC"):
                x, _, got, b = self.mixed("cutmix:p=1", seed, layout=layout)
                own = (got == x)
                self.assertTrue(torch.equal(torch.where(own, x, x.roll(1, 0)), got))
                axis = 1 if layout == "NCHW" else 3
                box = ~own.all(axis)  # pixels that are surely the partner's
                self.assertLessEqual(box.any(0).float().mean().item(), 1 - b.mix_weight + 1e-6)
                changed += b.mix_weight < 1
        self.assertGreater(changed, 4)

    def test_one_of_both(self):
        seen = set()
        with self.loader("resize:h=8,w=8|mixup:p=1|cutmix:p=1", epochs=12) as loader:
            for _ in range(12):
                for b in loader:
                    seen.add(round(b.mix_weight * 64, 4) % 1 == 0)
        self.assertEqual(seen, {True, False})


if __name__ == "__main__":
    unittest.main()
