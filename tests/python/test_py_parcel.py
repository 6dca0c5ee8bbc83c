"""Samples as bytes: what goes in comes out, and what others wrote is not believed."""

import os
import random
import struct
import sys
import unittest
from collections import namedtuple

import kit

import numpy
import torch
from larder import _parcel as parcel
from larder._errors import FormatError

Point = namedtuple("Point", "x y")


class Odd:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return type(other) is Odd and other.n == self.n


def same(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, numpy.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and numpy.array_equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def anything(rng, depth=0):
    kinds = [
        lambda: rng.randrange(-5, 1 << 62), rng.random, lambda: rng.random() < 0.5, lambda: None,
        lambda: "".join(rng.choice("aé([{#\\\0") for _ in range(rng.randrange(6))),
        lambda: bytes(rng.randrange(256) for _ in range(rng.randrange(40))),
        lambda: torch.randint(0, 100, [rng.randrange(4) for _ in range(rng.randrange(4))]).to(
            rng.choice([torch.float32, torch.uint8, torch.int64, torch.bfloat16, torch.float16, torch.bool])),
        lambda: (numpy.arange(24).reshape(2, 3, 4) + 1).astype(rng.choice(["f4", "i2", "u8", "f8", "?", "c8", "u4"])),
        lambda: torch.arange(12).reshape(3, 4).t(), lambda: numpy.arange(20)[::3], lambda: 1 << 80, lambda: Odd(3),
    ]
    if depth < 3 and rng.random() < 0.6:
        many = [anything(rng, depth + 1) for _ in range(rng.randrange(4))]
        keys = [rng.choice(["a", "b{", "(0", "#1", "", 3, -1]) for _ in many]
        return rng.choice([list, tuple, lambda m: dict(zip(keys, m)), lambda m: Point(m, len(m))])(many)
    return rng.choice(kinds)()


class Roundtrip(unittest.TestCase):
    def test_anything(self):
        rng = random.Random(3)
        for _ in range(600 if os.environ.get("LARDER_LONG") else 200):
            value = anything(rng)
            got = parcel.loads(bytearray(parcel.dumps(value)), pickles=True)
            self.assertTrue(same(got, value), (value, got))

    def test_strange_types(self):
        self.assertEqual(parcel.loads(parcel.dumps(numpy.float32(2.5))), 2.5)
        self.assertEqual(parcel.loads(parcel.dumps(numpy.array(7, "int16"))), 7)
        got = parcel.loads(bytearray(parcel.dumps(torch.rand(2, 2, requires_grad=True))))
        self.assertFalse(got.requires_grad)
        self.assertTrue(same(parcel.loads(parcel.dumps(numpy.array(["a", "b"])), pickles=True), numpy.array(["a", "b"])))

    def test_pickles_only_where_they_are_ours(self):
        for value in (Odd(1), (1, Odd(2)), {"a": [Odd(3)]}, 1 << 70):
            raw = parcel.dumps(value)
            self.assertEqual(parcel.loads(raw, pickles=True), value)
            with self.assertRaisesRegex(FormatError, "pickled"):
                parcel.loads(raw)

    def test_a_layout_that_is_written_down(self):
        raw = parcel.dumps({"k": numpy.array([1, 2], "uint8")})
        self.assertEqual(raw[:16], struct.pack("<4sBBHII", b"LRDP", 1, 0, 1, 64, 0))
        self.assertEqual(raw[16:40], struct.pack("<BBBBIQQ", 3, 1, 1, 2, 0, 64, 2))
        self.assertEqual(raw[40:48], struct.pack("<Q", 2))
        self.assertEqual(raw[48:], b"{k" + bytes(14) + b"\1\2")

    def test_damage(self):
        """Refused, or taken for something else; nothing worse."""
        rng = random.Random(5)
        raw = parcel.dumps((torch.rand(3, 4), {"a": "text", "b": [1, 2.5]}, b"bytes"))
        refused = 0
        for _ in range(2000):
            bad = bytearray(raw[: rng.randrange(len(raw) + 1)] if rng.random() < 0.3 else raw)
            for _ in range(rng.randrange(1, 4)):
                if bad:
                    bad[rng.randrange(min(len(bad), 300))] = rng.randrange(256)
            try:
                parcel.loads(bad)
            except FormatError:
                refused += 1
        self.assertGreater(refused, 500)

    def test_too_much(self):
        with self.assertRaisesRegex(FormatError, "at most 4096"):
            parcel.dumps(list(range(5000)))
        with self.assertRaisesRegex(FormatError, "255"):
            parcel.dumps({"k" * 300: 1})


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=0))
