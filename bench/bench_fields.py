"""Samples a second of one tar file read as picture and .cls, and with other fields, in one run, in turn.

    python3 bench/bench_fields.py [SAMPLES] [ROUNDS]

Batches of 256 through two threads, no cache, from the page cache; the median of the rounds."""

import io
import json
import os
import statistics
import sys
import tarfile
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

import numpy  # noqa: E402
from PIL import Image  # noqa: E402

import larder  # noqa: E402

WAYS = {
    "jpg, cls (no fields)": {},
    "jpg, cls": {"fields": "jpg,cls"},
    "jpg, json.label": {"fields": "jpg,json.label"},
    "jpg, target=json.label": {"target": "json.label"},
    "jpg, cls, txt, npy": {"fields": "jpg,cls,txt,npy"},
    "jpg, cls, mask": {"fields": "jpg,cls,seg.png:mask"},
}


def write(path, n):
    rng = numpy.random.RandomState(1)
    with tarfile.open(path, "w") as t:
        for i in range(n):
            picture = rng.randint(0, 255, (16, 16, 3)).astype("uint8")
            jpg, mask, array = io.BytesIO(), io.BytesIO(), io.BytesIO()
            Image.fromarray(picture).resize((160, 120), Image.BICUBIC).save(jpg, "JPEG", quality=85)
            Image.fromarray(picture[:, :, 0] // 32).resize((160, 120), Image.NEAREST).save(mask, "PNG")
            numpy.save(array, rng.rand(64).astype("float32"))
            meta = {"width": 160, "height": 120, "caption": "a few words", "label": i % 100, "boxes": [[1, 2, 30, 40]]}
            for ending, data in (("jpg", jpg.getvalue()), ("cls", b"%d" % (i % 100)), ("json", json.dumps(meta).encode()),
                                 ("txt", b"a few words"), ("npy", array.getvalue()), ("seg.png", mask.getvalue())):
                member = tarfile.TarInfo(f"{i:06d}.{ending}")
                member.size = len(data)
                t.addfile(member, io.BytesIO(data))


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LARDER_CACHE_DIR"] = folder
        write(f"{folder}/s.tar", n)
        rates = {way: [] for way in WAYS}
        for _ in range(rounds):
            for way, given in WAYS.items():  # one at a time: loaders read ahead
                with larder.Loader(f"tar:{folder}/s.tar", 256, cache="0", augment=["rrc:size=96", "flip"], threads=2,
                                   seed=1, epochs=1, **given) as loader:
                    begun, seen, cpu = time.perf_counter(), 0, time.process_time()
                    for b in loader:
                        seen += b.n
                    took = time.perf_counter() - begun
                    rates[way].append((seen / took, (time.process_time() - cpu) / seen * 1e6))
        for way, given in rates.items():
            rate = statistics.median(r for r, _ in given)
            cost = statistics.median(c for _, c in given)
            print(f"{way:28} {rate:9.0f} samples/s  {cost:7.1f} us of CPU a sample")


if __name__ == "__main__":
    main()
