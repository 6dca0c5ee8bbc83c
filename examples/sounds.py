"""Which kind of sound is it? A folder of recordings per class, or sounds made up here.

    python3 examples/sounds.py                                # made up: tones, buzzes, chirps, noise
    python3 examples/sounds.py speech_commands/ --seconds 1 --rate 16000 --epochs 20

Recordings may be WAV, FLAC, OGG or MP3, of any rate and length: a window of each comes, by chance where there is
more, resampled, and followed by silence where there is less."""

import argparse
import math
import os
import random
import struct
import sys
import tempfile
import wave

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import larder  # noqa: E402


def sound(kind, hz, t):
    phase = 2 * math.pi * hz * t
    return {"tone": math.sin(phase), "buzz": math.copysign(0.6, math.sin(phase)),
            "chirp": math.sin(phase * (1 + 2 * t)), "noise": random.uniform(-1, 1)}[kind]


def make(folder, each):
    """Of several rates and lengths, as recordings are."""
    random.seed(1)
    for kind in ("buzz", "chirp", "noise", "tone"):
        os.makedirs(os.path.join(folder, kind))
        for i in range(each):
            rate, seconds, hz = random.choice((8000, 11025, 16000)), random.uniform(0.2, 0.8), random.uniform(200, 800)
            levels = [int(20000 * sound(kind, hz, k / rate)) for k in range(int(rate * seconds))]
            with wave.open(os.path.join(folder, kind, f"{i}.wav"), "wb") as out:
                out.setnchannels(1)
                out.setsampwidth(2)
                out.setframerate(rate)
                out.writeframes(struct.pack(f"<{len(levels)}h", *levels))


class Net(nn.Module):
    """Convolutions over time, then what is heard most."""

    def __init__(self, classes, width=32):
        super().__init__()
        layers, before = [], 1
        for k in range(4):
            layers += [nn.Conv1d(before, width, 9, 4, 4), nn.BatchNorm1d(width), nn.ReLU()]
            before = width
        self.body, self.head = nn.Sequential(*layers), nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.body(x).amax(-1))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("folder", nargs="?", help="with a folder per class; else sounds are made up")
    p.add_argument("--each", type=int, default=60, help="sounds of a class that are made up")
    p.add_argument("--seconds", type=float, default=0.5)
    p.add_argument("--rate", type=int, default=8000)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--epochs", type=int, default=8)
    a = p.parse_args()
    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as made:
        folder = a.folder or os.path.join(made, "sounds")
        if not a.folder:
            make(folder, a.each)
        data = f"dir:{folder}?take="
        window = f"sound=wav|flac|ogg|mp3:sound;seconds={a.seconds};rate={a.rate}"
        # A tenth of the recordings, spread over all classes, is held out.
        with larder.Loader(data + "-10%", fields=window, batch_size=a.batch, epochs=a.epochs, seed=1) as loader, \
                larder.Loader(data + "10%", fields=window + ";at=centre", batch_size=a.batch) as held:
            net = Net(len(loader.classes)).to(device)
            optimizer = torch.optim.Adam(net.parameters(), 3e-3)
            for epoch in range(a.epochs):
                net.train()
                for batch in loader:
                    loss = F.cross_entropy(net(batch.sound.to(device)), batch.y.to(device))
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                net.eval()
                with torch.no_grad():
                    right = [(net(b.sound.to(device)).argmax(1) == b.y.to(device)) for b in held]
                right = torch.cat(right).float()
                print(f"epoch {epoch}: loss {loss.item():.3f}, {100 * right.mean():.0f} % of {len(right)} held-out "
                      "sounds right", flush=True)


if __name__ == "__main__":
    main()
