"""Typed samples (arrays, windows of tokens, tables): batches are tensors of the types they are stored in."""

import os
import tempfile
import unittest

import kit  # noqa: F401

import larder
import numpy
import torch


class Arrays(unittest.TestCase):
    def setUp(self):
        self.at = tempfile.TemporaryDirectory()
        self.tokens = numpy.arange(100, dtype="uint16") + 60000
        self.tokens.tofile(self.path("tokens.bin"))
        with open(self.path("rows.csv"), "w") as f:
            f.write("a,town,price\n1,x,2.5\n3,y,4.5\n")

    def tearDown(self):
        self.at.cleanup()

    def path(self, name):
        return os.path.join(self.at.name, name)

    def first(self, uri, **given):
        with larder.Loader(uri, 2, shuffle=False, **given) as loader:
            return next(iter(loader))

    def windows(self, **given):
        return self.first(f"window:length=8:raw:{self.path('tokens.bin')}?dtype=u16", **given)

    def test_tokens_are_tensors_whatever_pytorch_knows(self):
        batch = self.windows()
        self.assertTrue(torch.is_tensor(batch.x) and torch.is_tensor(batch.y))
        self.assertEqual(batch.x.dtype, getattr(torch, "uint16", torch.int64))
        self.assertEqual(batch.x.long().tolist(), self.tokens[:16].reshape(2, 8).tolist())
        self.assertEqual(batch.y.long().tolist(), self.tokens[1:17].reshape(2, 8).tolist())

    def test_without_tensors_types_stay(self):
        self.assertEqual(self.windows(torch=False).x.dtype, numpy.uint16)

    def test_fields_are_of_their_own_kind(self):
        batch = self.windows(fields="x,y")
        self.assertEqual([tuple(batch.x.shape), tuple(batch.y.shape)], [(2, 8), (2, 8)])
        batch = self.windows(fields="x:array;dtype=int64,y:array;dtype=int32")
        self.assertEqual([batch.x.dtype, batch.y.dtype], [torch.int64, torch.int32])
        batch = self.first(f"csv:{self.path('rows.csv')}?target=price", fields="town,y")
        self.assertEqual([batch["town"], batch.y.tolist()], [["x", "y"], [2.5, 4.5]])


if __name__ == "__main__":
    unittest.main()
