"""Samples of several fields: what tarfile, json, NumPy and Pillow read is what batches have."""
import io
import json
import os
import random
import subprocess
import tarfile
import tempfile
import unittest
import warnings
from pathlib import Path

from kit import larder
import numpy
import torch

try:
    from PIL import Image
except ImportError:
    Image = None

N = 41
SIZE = "resize:h=16,w=24"


def npy(a):
    f = io.BytesIO()
    numpy.save(f, a)
    return f.getvalue()


def npz(pack, **arrays):
    f = io.BytesIO()
    (numpy.savez_compressed if pack else numpy.savez)(f, **arrays)
    return f.getvalue()


def picture(i, w=24, h=16, mode="RGB"):
    rng = numpy.random.RandomState(i)
    shape = (h, w, 3) if mode == "RGB" else (h, w)
    image = Image.fromarray(rng.randint(0, 200, shape).astype("uint8"), mode)
    if mode == "P":
        image.putpalette([(k * 7 + c * 50) % 256 for k in range(256) for c in range(3)])
    f = io.BytesIO()
    image.save(f, "PNG")
    return f.getvalue()


def sample(i):
    """Members of sample i, in this order."""
    rng = numpy.random.RandomState(i + 1000)
    meta = {
        "label": i % 7,
        "score": i / 4,
        "deep": {"a.b": [i, {"c": "näme \" %d\n" % i}]},
        "vector": [i, i + 0.5, -1],
        "boxes": [[k, k + 1, k + 10, k + 12] for k in range(i % 4)],
        "yes": bool(i % 2),
        "text": "word %d \u4e16\U0001f600" % i,
    }
    return {
        "png": picture(i),
        "json": json.dumps(meta, ensure_ascii=i % 2 == 0).encode(),
        "cls": b"%d\n" % (i % 5),
        "seg.png": picture(i + 500, mode="P"),
        "npy": npy(rng.rand(3, 2).astype("float32")),
        "npz": npz(i % 2, a=numpy.arange(i % 3 + 1), b=rng.randint(0, 9, (2, 2)).astype("int16")),
        "txt": ("caption %d é" % i).encode(),
        "bin": bytes(range(i % 11)),
    }, meta


def shard(path, samples, aside=()):
    with tarfile.open(path, "w") as t:
        for name, data in list(samples) + list(aside):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            t.addfile(member, io.BytesIO(data))
    return f"tar:{path}"


def members(ids, change=lambda i, parts: parts):
    return [(f"d/{i:05d}.{ending}", data) for i in ids for ending, data in change(i, sample(i)[0]).items()]


@unittest.skipIf(Image is None, "no Pillow")
class Fields(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.at = Path(self.folder.name)
        os.environ["LARDER_CACHE_DIR"] = str(self.at / "kept")
        warnings.simplefilter("ignore", larder.LarderWarning)
        self.uri = shard(self.at / "s.tar", members(range(N)), [("README", b"hello")])

    def load(self, uri=None, batch_size=8, **given):
        given.setdefault("augment", SIZE)
        given.setdefault("dtype", "uint8")
        return larder.Loader(uri or self.uri, batch_size, **given)

    # ---- what comes is what is there -------------------------------------------------------------

    def test_every_kind(self):
        fields = ["png", "json.label", "cls", "mask=seg.png:mask", "npy", "npz.b", "txt", "bin", "json.score",
                  "json.deep.a\\.b.1.c", "json.vector", "b=json.boxes:array;ragged=true", "json.yes", "json.text",
                  "json", "i=json.deep.a\\.b.0:number;dtype=float32"]
        seen = set()
        with self.load(fields=fields, layout="NHWC") as loader:
            for epoch in range(2):  # read, then out of the cache
                for b in loader:
                    for k, i in enumerate(b.served.tolist()):
                        parts, meta = sample(i)
                        self.assertEqual(b.y[k].item(), meta["label"])  # the first number
                        self.assertEqual(b["json.label"][k].item(), meta["label"])
                        self.assertEqual(b["cls"][k].item(), i % 5)
                        self.assertTrue((b.x[k].numpy() == numpy.asarray(Image.open(io.BytesIO(parts["png"])))).all())
                        mask = numpy.asarray(Image.open(io.BytesIO(parts["seg.png"])))  # numbers, not colours
                        self.assertTrue((b.mask[k].numpy() == mask).all())
                        self.assertTrue((b["npy"][k].numpy() == numpy.load(io.BytesIO(parts["npy"]))).all())
                        packed = numpy.load(io.BytesIO(parts["npz"]))["b"]
                        self.assertEqual(b["npz.b"].dtype, torch.int16)
                        self.assertTrue((b["npz.b"][k].numpy() == packed).all())
                        self.assertEqual(b["txt"][k], parts["txt"].decode())
                        self.assertEqual(b["bin"][k], parts["bin"])
                        self.assertEqual(b["json.score"][k].item(), meta["score"])
                        self.assertEqual(b["json.deep.a\\.b.1.c"][k], meta["deep"]["a.b"][1]["c"])
                        self.assertEqual(b["json.vector"][k].tolist(), meta["vector"])
                        self.assertEqual(b.b[k].tolist(), meta["boxes"])
                        self.assertEqual(b["json.yes"][k].item(), int(meta["yes"]))
                        self.assertEqual(b["json.text"][k], meta["text"])
                        self.assertEqual(json.loads(b["json"][k]), meta)
                        self.assertEqual(b.i[k].item(), float(i))
                        seen.add(i)
                self.assertEqual(list(b.fields), [f.split(":")[0].partition("=")[0] if "=" in f.split(":")[0]
                                                  else f.split(":")[0] for f in fields])
        self.assertEqual(len(seen), N)

    def test_pair_without_fields(self):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            with self.load() as loader:
                for x, y in loader:
                    pass
                b = next(iter(loader))
                self.assertEqual(b.fields, {})
                self.assertEqual([i % 5 for i in b.served.tolist()], b.y.tolist())
                with self.assertRaises(KeyError):
                    b["json"]
        self.assertEqual(sum("are not used" in str(t.message) for t in told), 1)
        self.assertIn(f"{N} .json", str(told[0].message))
        self.assertIn("fields=", str(told[0].message))

    def test_functions_of_ones_own(self):
        here = os.getpid()

        def elsewhere(sample):
            x, y = sample
            return x, y, os.getpid() != here

        with self.assertWarnsRegex(larder.LarderWarning, "run in the training thread; workers run them for"):
            self.load(fields="npy,cls", augment=None, transform=lambda x: x).close()
        data = larder.Dataset(self.uri, cache="0", fields="npy,cls")
        with larder.Loader(dataset=data, batch_size=8, transform=elsewhere, workers=1, shuffle=False) as loader:
            x, y, away = next(iter(loader))
        self.assertTrue(away.all())
        for i in range(8):
            want = data[i]
            self.assertTrue(torch.equal(x[i], want[0]))
            self.assertEqual(int(y[i]), want[1])
        data.close()

    def test_without_a_picture(self):
        with self.load(fields="npy,cls", augment=None) as loader:
            for x, y in loader:
                self.assertEqual(tuple(x.shape[1:]), (3, 2))
            self.assertEqual(y.dtype, torch.int64)
        with self.assertRaisesRegex(larder.ArgumentError, "no picture among the fields"):
            self.load(fields="npy,cls")

    def test_targets(self):
        with self.load(target="json.label") as loader:
            for b in loader:
                self.assertEqual([sample(i)[1]["label"] for i in b.served.tolist()], b.y.tolist())
        with self.load(fields="png,cls", target="json.vector") as loader:
            b = next(iter(loader))
            self.assertEqual(b.y.dtype, torch.float32)
            self.assertEqual(b.y.tolist(), [sample(i)[1]["vector"] for i in b.served.tolist()])
            self.assertEqual(b["cls"].tolist(), [i % 5 for i in b.served.tolist()])
        with self.load(fields="png,json.score") as loader:
            b = next(iter(loader))
            self.assertEqual(b.y.tolist(), [i / 4 for i in b.served.tolist()])
        with self.load(fields="png,cls,txt", target=lambda s: len(s["txt"]) + int(s["cls"])) as loader:
            b = next(iter(loader))
            self.assertEqual(b.y.tolist(), [len(sample(i)[0]["txt"].decode()) + i % 5 for i in b.served.tolist()])

    def test_tables(self):
        lines = [f'"d/{i:05d}.png",{i * 3},"a, ""{i % 3}""",{i / 2},{i % 2}' for i in range(N)]
        random.Random(5).shuffle(lines)
        table = self.at / "labels.csv"
        table.write_text("\ufefffile,n,word,half,odd\r\n" + "\r\n".join(lines) + "\r\n")
        with self.load(target="csv:labels.csv?value=n") as loader:  # beside the shard
            for b in loader:
                self.assertEqual([i * 3 for i in b.served.tolist()], b.y.tolist())
        with self.load(target=f"csv:{table}?value=word") as loader:
            for b in loader:
                self.assertEqual([i % 3 for i in b.served.tolist()], b.y.tolist())
            self.assertEqual(loader.classes, ['a, "0"', 'a, "1"', 'a, "2"'])
        with self.load(fields="png,txt", target=f"csv:{table}?key=file&value=half/odd") as loader:
            b = next(iter(loader))
            self.assertEqual(b.y.tolist(), [[i / 2, i % 2] for i in b.served.tolist()])
            self.assertEqual(b["txt"][0], "caption %d é" % b.served[0])
        table.write_text("id,n\n" + "".join(f"{i:05d},{i}\n" for i in range(N) if i != 9))  # by the stem
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            with self.load(target=table, on_bad="skip") as loader:
                served = [i for b in loader for i in b.served.tolist()]
        self.assertEqual(sorted(served), [i for i in range(N) if i != 9])
        self.assertTrue(any("no line for 1 samples" in str(t.message) for t in told))
        for text, says in (("id,n\n00001,x,y\n", "line 2: 3 columns"), ("id,n\n00001,\"x\n", "quote is not closed"),
                           ("id,n\n00001,2\n00001,3\n", "line 3: \"00001\" is in line 2"), ("", "is empty"),
                           ("id,n\nq,1\n", "no line for any sample"), ("id,n\n00001,\n", "line 2: a value is missing")):
            table.write_text(text)
            with self.assertRaisesRegex(larder.Error, says):
                self.load(target=table)
        with self.assertRaisesRegex(larder.Error, 'no column "nix"; there are id, n'):
            table.write_text("id,n\n00001,1\n")
            self.load(target=f"csv:{table}?value=nix")

    # ---- geometry ------------------------------------------------------------------------------------

    def test_masks_and_boxes_move_with_the_picture(self):
        """Each picture is its own mask, and a box is around its one white square."""
        def change(i, _):
            rng = numpy.random.RandomState(i)
            w, h = rng.randint(30, 60), rng.randint(30, 60)
            a = numpy.zeros((h, w), "uint8")
            x, y = rng.randint(0, w - 12), rng.randint(0, h - 12)
            a[y:y + 12, x:x + 12] = 255
            rgb, grey = io.BytesIO(), io.BytesIO()
            Image.fromarray(numpy.stack([a] * 3, 2)).save(rgb, "PNG")
            Image.fromarray(a).save(grey, "PNG")
            box = json.dumps({"b": [[int(x), int(y), int(x) + 12, int(y) + 12]], "w": [[int(x), int(y), 12, 12]]})
            return {"png": rgb.getvalue(), "seg.png": grey.getvalue(), "json": box.encode()}
        uri = shard(self.at / "g.tar", members(range(20), change))
        fields = "png,seg.png:mask,boxes=json.b:boxes,sides=json.w:boxes;format=xywh"
        for augment, exact in (("crop:size=28|flip", True), ("rrc:size=64|flip", False)):
            with self.load(uri, augment=augment, fields=fields, layout="NHWC", seed=3) as loader:
                for _ in range(3):
                    for b in loader:
                        for k in range(b.n):
                            x, mask = b.x[k, :, :, 0].numpy(), b["seg.png"][k].numpy()
                            self.assertLessEqual(set(numpy.unique(mask)), {0, 255})
                            if exact:
                                self.assertTrue((x == mask).all())
                            else:
                                self.assertLess(((x > 127) != (mask > 127)).mean(), 0.06)
                            (box,), (same,) = b.boxes[k].tolist(), b.sides[k].tolist()
                            self.assertEqual(box, same)
                            ys, xs = numpy.nonzero(mask)
                            if len(xs):
                                around = [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]
                                self.assertLess(max(abs(p - q) for p, q in zip(box, around)), 1e-3 if exact else 4)
                            elif exact:
                                self.assertEqual((box[2] - box[0]) * (box[3] - box[1]), 0)

    # ---- the same whatever the threads, and after a resume ---------------------------------------------

    def run_of(self, threads, upto=None, state=None, **given):
        out = []
        with self.load(fields="png,json.label,txt,seg.png:mask,npy", threads=threads, augment="rrc:size=12|flip",
                       seed=11, **given) as loader:
            if state:
                loader.load_state_dict(state)
            for b in loader:
                out.append((b.served.tolist(), b.y.tolist(), b.x.numpy().tobytes(), b["txt"],
                            b["seg.png"].numpy().tobytes(), b["npy"].numpy().tobytes()))
                if upto and len(out) == upto:
                    return out, loader.state_dict()
        return out

    def test_repeats(self):
        one = self.run_of(1)
        self.assertEqual(one, self.run_of(4))
        self.assertEqual(one, self.run_of(2, cache="0"))
        begun, state = self.run_of(2, upto=2)
        self.assertEqual(one, begun + self.run_of(3, state=state))

    def test_held_after_the_loader(self):
        kept = []
        with self.load(fields="png,txt,npy,b=json.boxes:array;ragged=true,npz.a:array;ragged=true", cache="0") as loader:
            for b in loader:
                kept.append((b.served.tolist(), b["npy"], b["npz.a"], b["txt"], b.b))
        for served, a, ragged, text, boxes in kept:
            for k, i in enumerate(served):
                self.assertEqual(ragged[k].tolist(), list(range(i % 3 + 1)))
                self.assertEqual(text[k], "caption %d é" % i)
                self.assertEqual(boxes[k].tolist(), sample(i)[1]["boxes"])

    def test_held_after_an_evaluator(self):
        kept = []

        def evaluate(b):
            kept.append(b)
            return b.served.float()

        self.uri = shard(self.at / "more.tar", members(range(64)))
        with self.load(fields="png,txt,npy,npz.a:array;ragged=true", recipe="impact:warm_max=2,full_every=1",
                       evaluator=evaluate) as loader:
            for _ in range(3):
                for b in loader:
                    loader.report(loss=b.served.float())
        self.assertGreater(len(kept), 0)
        for b in kept:
            for k, i in enumerate(b.served.tolist()):
                self.assertEqual(b["npz.a"][k].tolist(), list(range(i % 3 + 1)))
                self.assertEqual(b["txt"][k], "caption %d é" % i)
                want = numpy.load(io.BytesIO(sample(i)[0]["npy"]))
                self.assertEqual(b["npy"][k].tolist(), want.tolist())

    # ---- what is wrong is named -------------------------------------------------------------------------

    def test_bad_samples_by_name(self):
        broken = {3: ("json", b'{"label": '), 5: ("json", b'{"other": 1}'), 7: ("npy", npy(numpy.zeros(4))),
                  9: ("npy", npy(numpy.zeros((3, 2), "f4"))[:-4]), 11: ("json", b'{"label": "x"}'), 13: ("txt", None)}

        def change(i, parts):
            if i in broken:
                ending, data = broken[i]
                parts.pop(ending)
                if data is not None:
                    parts[ending] = data
            return parts
        uri = shard(self.at / "b.tar", members(range(20), change))
        with self.load(uri, fields="png,json.label,npy,txt", on_bad="skip") as loader:
            served = [i for b in loader for i in b.served.tolist()]
            told = {b["id"]: b["why"] for b in loader.bad()}
        self.assertEqual(sorted(served), [i for i in range(20) if i not in broken])
        says = {3: "no JSON", 5: 'no "label"', 7: "an array of 4 float64", 9: "cut off", 11: "no number",
                13: 'no member "txt"'}
        self.assertEqual(sorted(told), sorted(broken))
        for i, words in says.items():
            self.assertIn(words, told[i])
            self.assertIn(f"d/{i:05d}.png", told[i])
        with self.load(uri, fields="png,json.label,npy,txt", on_bad="replace") as loader:
            for b in loader:
                self.assertEqual(b.y.tolist(), [sample(i)[1]["label"] for i in b.served.tolist()])
                self.assertEqual(b["txt"], ["caption %d é" % i for i in b.served.tolist()])

    def test_wrong_texts(self):
        for fields, says in (("png,png", "two columns are called"), ("png:nix", "no kind of column"), ([], "names none"),
                             ("png,,cls", "a field is written"), ("png:mask;fil=3", "fil"), (7, "fields is a list"),
                             ("webp", "no samples"), ("png,npz.q", "no array"), ("png,json.boxes.7", "no \"boxes.7\"")):
            with self.assertRaisesRegex(larder.Error, says):
                self.load(fields=fields)
        with self.assertRaisesRegex(larder.Error, "cached as they are stored"):
            self.load(fields="png,cls", cache="1MiB:50/50/0")
        with self.assertRaisesRegex(larder.Error, "no fields to choose"):
            larder.Loader("mem:?n=60&h=8&w=8&c=1", fields="png")

    # ---- the tar's own order of members, by a slow and obvious twin -------------------------------------

    def test_grouping_against_tarfile(self):
        rng = random.Random(8)
        endings = ["jpg", "PNG", "json", "bin", "a.b", "txt", "seg.png"]
        compared = 0
        for round in range(12):
            parts = []
            for i in range(30):
                folder, key = rng.choice(["", "x/", "x.y/"]), i // rng.randint(1, 2)
                for ending in rng.sample(endings, rng.randint(3, 7)):
                    parts.append((f"{folder}k{key}.{ending}", b"%d" % rng.randint(0, 10 ** rng.randint(0, 9))))
            uri = shard(self.at / f"t{round}.tar", parts, [("aside", b"x"), (".hidden.json", b"y")])
            wanted = rng.sample(["json", "a.b", "txt", "png|jpg"], rng.randint(1, 2))
            expected = []  # key, then each wanted member's bytes
            group, key = {}, None
            with tarfile.open(uri[4:]) as t:
                for m in list(t.getmembers()) + [None]:
                    folder, _, name = m.name.rpartition("/") if m else ("", "", "")
                    here = (folder, name.partition(".")[0]) if m else None
                    if here != key and group:
                        found = [next((group[e] for e in w.split("|") if e in group), None) for w in wanted]
                        if any(f is not None for f in found):
                            expected.append(found)
                    if here != key:
                        group, key = {}, here
                    if m:
                        group.setdefault(name.partition(".")[2].lower(), t.extractfile(m).read())
            got, compared = {}, compared + 1
            with larder.Loader(uri, 16, fields=[f"f{k}={w}:bytes" for k, w in enumerate(wanted)], on_bad="skip",
                               shuffle=False) as loader:
                self.assertEqual(loader.samples, len(expected))
                try:
                    for b in loader:
                        for k, i in enumerate(b.served.tolist()):
                            got[i] = [b[f"f{c}"][k] for c in range(len(wanted))]
                except larder.Error as e:
                    self.assertIn("every sample of batch", str(e))
                    compared -= 1
                    continue
            self.assertEqual(got, {i: f for i, f in enumerate(expected) if None not in f})
        self.assertGreater(compared, 6)

    # ---- folders -----------------------------------------------------------------------------------------

    def test_files_of_one_stem(self):
        root = self.at / "photos"
        for i in range(20):
            parts, _ = sample(i)
            folder = root / ("cat" if i % 2 else "dog") / "deep"
            folder.mkdir(parents=True, exist_ok=True)
            for ending in ("png", "json", "seg.png", "txt"):
                if (i, ending) != (8, "txt"):
                    (folder / f"p.{i:02d}.{ending}").write_bytes(parts[ending])
        order = [i for i in range(20) if i % 2] + [i for i in range(20) if i % 2 == 0]
        with self.load(f"dir:{root}", fields="png,mask=seg.png:mask,txt,json.label", on_bad="skip", layout="NHWC",
                       target="json.score") as loader:
            self.assertEqual(loader.samples, 20)
            served = []
            for b in loader:
                for k, at in enumerate(b.served.tolist()):
                    i = order[at]
                    parts, meta = sample(i)
                    served.append(i)
                    self.assertTrue((b.x[k].numpy() == numpy.asarray(Image.open(io.BytesIO(parts["png"])))).all())
                    self.assertTrue((b.mask[k].numpy() == numpy.asarray(Image.open(io.BytesIO(parts["seg.png"])))).all())
                    self.assertEqual((b["txt"][k], b["json.label"][k].item(), b.y[k].item()),
                                     (parts["txt"].decode(), meta["label"], meta["score"]))
            (bad,) = loader.bad()
        self.assertEqual(sorted(served), [i for i in range(20) if i != 8])
        self.assertIn('dog/deep/p.08.png has no file "txt" beside it', bad["why"])

    def test_folders_without_pictures(self):
        for i in range(12):
            folder = self.at / "words" / "ab"[i % 2]
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{i:02d}.txt").write_text(f"text {i}")
        with self.load(f"dir:{self.at}/words", fields="txt", augment=None) as loader:
            for b in loader:
                for text, label in zip(b.x, b.y.tolist()):  # the class folder's label
                    self.assertEqual(int(text.split()[1]) % 2, label)
            self.assertEqual(loader.classes, ["a", "b"])
        with self.assertRaisesRegex(larder.Error, "without images; 6 files are not used: 6 .txt .fields="):
            self.load(f"dir:{self.at}/words")

    def test_unpacked(self):
        """larder unpack leaves all members, and what it leaves reads the same."""
        out = self.at / "again"
        subprocess.run([os.environ.get("LARDER", larder._lib.program()), "unpack", self.uri, str(out), "--quiet"],
                       check=True, capture_output=True)
        for i in range(N):
            for ending, data in sample(i)[0].items():
                if ending != "cls":  # the manifest has it
                    self.assertEqual((out / "d" / f"{i:05d}.{ending}").read_bytes(), data)
        with self.load(str(out)) as loader:
            for b in loader:
                self.assertEqual([i % 5 for i in b.served.tolist()], b.y.tolist())
        with self.load(f"dir:{out}", fields="png,npy", target="json.label") as loader:
            for b in loader:
                self.assertEqual([sample(i)[1]["label"] for i in b.served.tolist()], b.y.tolist())

    # ---- by index ----------------------------------------------------------------------------------------

    def test_dataset(self):
        d = larder.Dataset(self.uri, augment=SIZE, fields=["png", "json.label", "txt", "npy"], dtype="uint8", shared=False)
        x, label, text, a = d[7]
        self.assertEqual((label, text), (0, "caption 7 é"))
        self.assertTrue((x.numpy().transpose(1, 2, 0) == numpy.asarray(Image.open(io.BytesIO(picture(7))))).all())
        batch = next(iter(torch.utils.data.DataLoader(d, 5)))
        self.assertEqual(batch[1].tolist(), [0, 1, 2, 3, 4])
        self.assertEqual(list(batch[2]), ["caption %d é" % i for i in range(5)])
        self.assertEqual(tuple(batch[3].shape), (5, 3, 2))
        t = larder.Dataset(self.uri, augment=SIZE, target="json.score", shared=False)
        self.assertEqual([t[i][1] for i in (3, 8)], [0.75, 2.0])


if __name__ == "__main__":
    unittest.main()
