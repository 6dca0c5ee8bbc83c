"""A small GPT on texts, byte by byte.

    python3 examples/gpt.py                                   # the licences of this machine
    python3 examples/gpt.py book.txt more/ --epochs 5 --width 256 --layers 6

All texts become one file of tokens (bytes here; of a tokenizer you would write 16-bit numbers and say
dtype=u16), and `window:` makes it a data set: x is a window of it, y the same window one token later. Nothing
else about the loader is special: shuffled, cached and resumed like pictures."""

import argparse
import math
import os
import sys
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import larder  # noqa: E402


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, mask):
        n, length, width = x.shape
        q, k, v = self.qkv(self.before(x)).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        weight = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).masked_fill(mask, -math.inf).softmax(-1)
        x = x + self.out((weight @ v).transpose(1, 2).reshape(n, length, width))
        return x + self.wide(self.after(x))


class GPT(nn.Module):
    def __init__(self, length, width, layers, heads=4, tokens=256):
        super().__init__()
        self.token, self.place = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, tokens))
        self.register_buffer("mask", torch.ones(length, length).triu(1).bool())

    def forward(self, x):
        length = x.shape[1]
        h = self.token(x) + self.place.weight[:length]
        for block in self.blocks:
            h = block(h, self.mask[:length, :length])
        return self.head(h)

    @torch.no_grad()
    def write(self, text, n):
        length = self.place.num_embeddings
        out = torch.tensor(list(text.encode()))[None].to(self.mask.device)
        for _ in range(n):
            chances = self(out[:, -length:])[:, -1].softmax(-1)
            out = torch.cat([out, torch.multinomial(chances, 1)], 1)
        return bytes(out[0].tolist()).decode("utf-8", "replace")


def gather(places, folder, most):
    """All texts below these places, one after the other: nine tenths to train on, and the rest."""
    parts, size = [], 0
    for place in places:
        names = [place] if os.path.isfile(place) else sorted(
            os.path.join(at, name) for at, _, names in os.walk(place) for name in names)
        for name in names:
            if size < most and os.path.isfile(name):
                with open(name, "rb") as file:
                    parts.append(file.read(most - size))
                size += len(parts[-1])
    text = b"\n".join(parts)
    paths = [os.path.join(folder, part) for part in ("train.bin", "test.bin")]
    cut = len(text) * 9 // 10
    for path, piece in zip(paths, (text[:cut], text[cut:])):
        with open(path, "wb") as file:
            file.write(piece)
    return paths


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("texts", nargs="*", default=["/usr/share/common-licenses"], help="files and folders")
    p.add_argument("--length", type=int, default=128, help="tokens of a window")
    p.add_argument("--width", type=int, default=128)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--bytes", type=int, default=4 << 20, help="of text, at most")
    p.add_argument("--rate", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    torch.manual_seed(a.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as folder:
        train, test = gather(a.texts, folder, a.bytes)
        uri = f"window:length={a.length},stride={a.length}:raw:{{}}?dtype=u8"
        model = GPT(a.length, a.width, a.layers).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), a.rate)
        with larder.Loader(uri.format(train), batch_size=a.batch, epochs=a.epochs, seed=a.seed) as loader, \
                larder.Loader(uri.format(test), batch_size=a.batch, shuffle=False) as held:
            print(f"{loader.samples} windows of {a.length} tokens, {device}")
            for epoch in range(a.epochs):
                start, seen = time.time(), 0
                for batch in loader:
                    x, y = batch.x.long().to(device), batch.y.long().to(device)
                    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    seen += x.numel()
                with torch.no_grad():
                    losses = [F.cross_entropy(model(b.x.long().to(device)).flatten(0, 1),
                                              b.y.long().to(device).flatten()).item() for b in held]
                print(f"epoch {epoch}: {sum(losses) / len(losses) / math.log(2):.3f} bits a byte on held-out text, "
                      f"{seen / (time.time() - start):.0f} tokens/s", flush=True)
        print(model.write("The ", 200))


if __name__ == "__main__":
    main()
