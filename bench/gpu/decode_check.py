#!/usr/bin/env python3
"""Does decoding on the GPU give what decoding on the cores gives? For a machine that has one.

    bench/gpu/decode_check.py --pictures FOLDER [--seconds 8] [--threads 4] [--only NAME,NAME]

Each check is a line of its own, `ok NAME figures` or `FAILED NAME why`, and the others go on. Pictures are JPEGs of a
folder; further ones of all samplings and odd sides are made from them, and broken ones. Differences are in levels of
255. At the end rates, each the median of three runs in turn (images a second, larder alone)."""
import argparse
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "python"))

import torch  # noqa: E402

import larder  # noqa: E402

CHAIN = ["rrc:size=224", "flip", "normalize:preset=imagenet"]
BYTES = ["rrc:size=224", "flip"]


class Pictures:
    """Folders with pictures of one sort each."""

    def __init__(self, given, root):
        self.root = root
        self.names = []
        if given:
            for top, _, files in os.walk(given):
                self.names += [os.path.join(top, f) for f in files if f.lower().endswith((".jpg", ".jpeg"))]
        self.names.sort()

    def folder(self, name, paths):
        to = os.path.join(self.root, name, "a")
        if os.path.isdir(to):
            return os.path.join(self.root, name)
        os.makedirs(to)
        for i, p in enumerate(paths):
            shutil.copyfile(p, os.path.join(to, f"{i:05d}.jpg"))
        return os.path.join(self.root, name)

    def some(self, n):
        """As they are; where there are none, made ones."""
        if not self.names:
            self.names = self._make(64)
        return self.folder(f"as-they-are-{n}", [self.names[i % len(self.names)] for i in range(n)])

    def _make(self, n):
        from PIL import Image

        import numpy as np

        to = os.path.join(self.root, "made")
        os.makedirs(to, exist_ok=True)
        rng, out = np.random.default_rng(0), []
        for i in range(n):
            h, w = int(rng.integers(200, 700)), int(rng.integers(200, 700))
            x = np.zeros((h, w, 3))
            for scale in (1, 4, 16, 64):
                noise = rng.normal(size=(h // scale + 2, w // scale + 2, 3)) * scale ** 0.7 * 4
                x += np.kron(noise, np.ones((scale, scale, 1)))[:h, :w]
            out.append(os.path.join(to, f"{i}.jpg"))
            Image.fromarray(np.clip(x + 128, 0, 255).astype("uint8")).save(out[-1], quality=int(rng.integers(60, 96)))
        return out

    def sampled(self, name, n=50):
        """Encoded anew with this sampling of colour."""
        from PIL import Image

        self.some(1)
        to = os.path.join(self.root, f"sampled-{name}", "a")
        os.makedirs(to, exist_ok=True)
        for i in range(n):
            im = Image.open(self.names[(i * 7) % len(self.names)]).convert("L" if name == "grey" else "RGB")
            im = im.crop((0, 0, im.width - i % 9, im.height - i % 7))
            kw = {} if name == "grey" else {"subsampling": {"444": 0, "422": 1, "420": 2}[name]}
            if i % 4 == 3 and name != "grey":
                kw["restart_marker_rows"] = 1
            try:
                im.save(os.path.join(to, f"{i:03d}.jpg"), quality=70 + i % 25, **kw)
            except TypeError:
                kw.pop("restart_marker_rows", None)
                im.save(os.path.join(to, f"{i:03d}.jpg"), quality=70 + i % 25, **kw)
        return os.path.join(self.root, f"sampled-{name}")

    def broken(self):
        from PIL import Image

        good = self.some(24)
        at = os.path.join(good, "a")
        files = sorted(os.listdir(at))
        whole = open(os.path.join(at, files[0]), "rb").read()
        to = os.path.join(self.root, "broken", "a")
        os.makedirs(to, exist_ok=True)
        for i, f in enumerate(files):
            shutil.copyfile(os.path.join(at, f), os.path.join(to, f))
        open(os.path.join(to, "x1-cut.jpg"), "wb").write(whole[: len(whole) // 2])
        open(os.path.join(to, "x2-text.jpg"), "wb").write(b"no picture at all")
        im = Image.open(os.path.join(at, files[1])).convert("RGB")
        im.convert("CMYK").save(os.path.join(to, "y1-cmyk.jpg"))
        im.save(os.path.join(to, "y2-progressive.jpg"), progressive=True)
        im.save(os.path.join(to, "y3-png.jpg"), format="PNG")
        return os.path.join(self.root, "broken")


def batches(uri, n=None, **conf):
    """x, served and y of the batches of an epoch, on the host."""
    out = []
    with larder.Loader(uri, torch=True, **conf) as l:
        for i, b in enumerate(l):
            out.append((b.x.detach().clone().cpu(), b.served.tolist(), b.y.tolist(), b.ids.tolist()))
            if n and i + 1 == n:
                break
        figures, stats = repr(l.figures()), l.stats()  # NaN is not NaN's equal
        bad = l.bad() if callable(l.bad) else l.bad
    return out, figures, stats, bad


def differences(a, b):
    """Largest, share above 1 and above 2, mean: of levels."""
    most, above1, above2, total, n = 0.0, 0, 0, 0.0, 0
    for p, q in zip(a, b):
        assert p[1] == q[1] and p[2] == q[2] and p[3] == q[3], "other samples, labels or ids"
        assert p[0].shape == q[0].shape, f"{p[0].shape} and {q[0].shape}"
        d = (p[0].float() - q[0].float()).abs()
        most = max(most, d.max().item())
        above1 += (d > 1.01).sum().item()
        above2 += (d > 2.01).sum().item()
        total += d.sum().item()
        n += d.numel()
    assert len(a) == len(b), f"{len(a)} batches and {len(b)}"
    return f"most {most:.0f}, above 1: {100 * above1 / n:.4f} %, above 2: {100 * above2 / n:.5f} %, mean {total / n:.4f}", most


class Planes(ctypes.Structure):
    _fields_ = [("channel", ctypes.c_void_p * 4), ("pitch", ctypes.c_size_t * 4)]


class Nvjpeg:
    """nvJPEG by itself, to know what it can do here: pictures a second of its batched decoding."""

    def __init__(self, paths):
        import numpy as np

        from larder import _torch

        _torch.show_libraries()
        self.lib = ctypes.CDLL(os.environ.get("LARDER_NVJPEG") or "libnvjpeg.so.13")
        raw = [open(p, "rb").read() for p in paths]
        self.sizes = [len(r) for r in raw]
        self.plain = [np.frombuffer(r, dtype="uint8").copy() for r in raw]
        self.pinned = [torch.from_numpy(a).pin_memory() for a in self.plain]

    def rate(self, backend, flags, output, pinned, threads, seconds=0.7):
        def one(box):
            lib, n = self.lib, len(self.sizes)
            handle, state = ctypes.c_void_p(), ctypes.c_void_p()
            codes = [lib.nvjpegCreateEx(backend, None, None, flags, ctypes.byref(handle)),
                     lib.nvjpegJpegStateCreate(handle, ctypes.byref(state)),
                     lib.nvjpegDecodeBatchedInitialize(handle, state, n, 1, output)]
            data = (ctypes.c_void_p * n)(*[(p.data_ptr() if pinned else p.ctypes.data)
                                           for p in (self.pinned if pinned else self.plain)])
            sizes, to = (ctypes.c_size_t * n)(*self.sizes), (Planes * n)()
            stream = torch.cuda.Stream()
            each = 1024 * 1024 * 4
            room = torch.empty(n * each, dtype=torch.uint8, device="cuda")
            w, h = (ctypes.c_int * 4)(), (ctypes.c_int * 4)()
            c, sub = ctypes.c_int(), ctypes.c_int()
            for i in range(n):
                lib.nvjpegGetImageInfo(handle, ctypes.c_void_p(data[i]), ctypes.c_size_t(self.sizes[i]), ctypes.byref(c),
                                       ctypes.byref(sub), w, h)
                at = room.data_ptr() + i * each
                for k in range(3):
                    to[i].channel[k], to[i].pitch[k] = at + k * each // 4, max(w[k], 1)
                if output == 5:
                    to[i].channel[0], to[i].pitch[0] = at, 3 * w[0]
            done, begun = 0, 0.0
            while not begun or time.perf_counter() - begun < seconds:
                codes.append(lib.nvjpegDecodeBatched(handle, state, data, sizes, to, ctypes.c_void_p(stream.cuda_stream)))
                stream.synchronize()
                if begun:
                    done += n
                else:
                    begun = time.perf_counter()
            box.append((done / (time.perf_counter() - begun), [x for x in codes if x]))
            lib.nvjpegJpegStateDestroy(state)
            lib.nvjpegDestroy(handle)

        box = []
        crowd = [threading.Thread(target=one, args=(box,)) for _ in range(threads)]
        [t.start() for t in crowd]
        [t.join() for t in crowd]
        return f"{sum(b[0] for b in box):.0f}/s" + "".join(f" codes {b[1][:3]}" for b in box if b[1])


class Checks:
    def __init__(self, args, pictures):
        self.args, self.pictures = args, pictures
        self.common = dict(batch_size=64, cache="0", threads=args.threads, seed=5)

    def environment(self):
        from larder import _torch

        _torch.show_libraries()
        return (f"torch {torch.__version__}, {torch.cuda.get_device_name()}, capability "
                f"{torch.cuda.get_device_capability()}, nvjpeg {os.environ.get('LARDER_NVJPEG')}, "
                f"libraries {os.environ.get('LARDER_CUDA_LIBRARIES', '')[:200]}")

    def nvjpeg_alone(self):
        self.pictures.some(1)
        names = [n for n in self.pictures.names if os.path.getsize(n) < 400_000][:128]
        jpeg, out = Nvjpeg(names), []
        for what in ((3, 0, 1, True, 1), (3, 0, 5, True, 1), (3, 32, 5, True, 1), (3, 32, 5, True, 2), (2, 32, 5, True, 1)):
            out.append("backend %d flags %d output %d pinned %d threads %d: " % what + jpeg.rate(*what))
            print(f"     {out[-1]}", flush=True)
        return f"{len(out)} lines above"

    def levels_equal_floats(self):
        """Rows that travel as bytes are what rows made here are, to the bit."""
        uri, said = self.pictures.some(256), []
        for dtype in ("float32", "float16", "bfloat16", "uint8"):
            for layout in ("NCHW", "NHWC"):
                chain = BYTES if dtype == "uint8" else CHAIN
                conf = dict(self.common, augment=chain, dtype=dtype, layout=layout)
                a = batches(uri, **conf)[0]
                b = batches(uri, device="cuda", **conf)[0]
                same = all(torch.equal(p[0], q[0]) and p[1:] == q[1:] for p, q in zip(a, b))
                if not same:
                    d = max((p[0].float() - q[0].float()).abs().max().item() for p, q in zip(a, b))
                    said.append(f"{dtype} {layout} differs by {d:g}")
        assert not said, "; ".join(said)
        return "8 of 8 types and layouts equal"

    def mixing(self):
        uri, said = self.pictures.some(256), []
        for stage in ("mixup", "cutmix"):
            conf = dict(self.common, augment=CHAIN + [stage])
            a, b = batches(uri, **conf)[0], batches(uri, device="cuda", **conf)[0]
            d = max((p[0] - q[0]).abs().max().item() for p, q in zip(a, b))
            said.append(f"{stage} {d:g}")
            assert d < 1e-6, said
        return "; ".join(said)

    def _decoded(self, uri, chain=None, decode="gpu", **more):
        conf = dict(self.common, augment=chain or BYTES, dtype="uint8", **more)
        a, fa, _, ba = batches(uri, **conf)
        b, fb, stats, bb = batches(uri, device="cuda", decode=decode, **conf)
        text, most = differences(a, b)
        assert fa == fb, f"figures differ: {fa} and {fb}"
        return f"{text}; on the GPU {stats.get('decoded_gpu', 0):.0f} of {stats['samples']:.0f}", most, ba, bb

    def decode_as_they_are(self):
        text, most, *_ = self._decoded(self.pictures.some(256), ["rrc:size=224,gap=0", "flip"])
        assert most <= 2, text
        return text

    def decode_by_kernels(self):
        """As on a card without an engine for JPEGs."""
        os.environ["LARDER_NVJPEG_KERNELS"] = "1"
        try:
            text, most, *_ = self._decoded(self.pictures.some(256), ["rrc:size=224,gap=0", "flip"])
        finally:
            del os.environ["LARDER_NVJPEG_KERNELS"]
        assert most <= 3, text  # its inverse DCT is rounded more freely
        return text

    def decode_to_rgb(self):
        """By nvJPEG's own colours, of each sampling."""
        said = []
        for name in ("420", "422", "444", "grey"):
            for chain in (["rrc:size=224,gap=0", "flip"], ["centercrop:size=160"]):
                text, *_ = self._decoded(self.pictures.sampled(name), chain, "gpu:fast")
                said.append(f"{name} {chain[0]}: {text}")
                print(f"     {said[-1]}", flush=True)
        text, *_ = self._decoded(self.pictures.some(256), ["rrc:size=224,gap=0", "flip"], "gpu:fast")
        return f"as they are: {text}"

    def decode_shrunk_on_cpu(self):
        """The cores may decode large pictures smaller: then it is their pixels that are others."""
        return self._decoded(self.pictures.some(256))[0]

    def decode_444(self):
        return self._sampled("444")

    def decode_422(self):
        return self._sampled("422")

    def decode_420(self):
        return self._sampled("420")

    def decode_grey(self):
        return self._sampled("grey")

    def _sampled(self, name):
        uri, said, worst = self.pictures.sampled(name), [], 0
        for chain in (["rrc:size=224,gap=0", "flip"], ["resize:size=96,gap=0", "centercrop:size=80"],
                      ["centercrop:size=160"]):
            text, most, *_ = self._decoded(uri, chain)
            said.append(f"{chain[0]}: {text}")
            worst = max(worst, most)
        assert worst <= 2, "; ".join(said)
        return "; ".join(said)

    def chains(self):
        said, worst = [], 0
        uri = self.pictures.some(128)
        for chain in (["rrc:size=224,gap=0,interpolation=bicubic", "flip"], ["rrc:size=224,gap=0,interpolation=nearest"],
                      ["rrc:size=224,gap=0,antialias=no"], ["rrc:size=160,gap=0", "grey:p=0.5"],
                      ["rrc:size=128,gap=0", "jitter:brightness=0.2,saturation=0.2"],
                      ["rrc:size=128,gap=0", "jitter:brightness=0.4,contrast=0.4,saturation=0.4,hue=0.1"]):
            text, most, *_ = self._decoded(uri, chain)
            said.append(f"{'|'.join(chain)}: {text}")
        return "\n     ".join(said)

    def views_and_formats(self):
        uri = self.pictures.some(128)
        text, most, *_ = self._decoded(uri, ["rrc:size=64,gap=0", "flip"], views=2, layout="channels_last")
        assert most <= 2, text
        x = batches(uri, 1, device="cuda", layout="channels_last", augment=CHAIN, dtype="bfloat16",
                    **self.common)[0][0][0]
        with larder.Loader(uri, device="cuda", layout="channels_last", augment=CHAIN, dtype="bfloat16",
                           **self.common) as l:
            b = next(iter(l))
            assert b.x.is_contiguous(memory_format=torch.channels_last), b.x.stride()
            assert b.x.shape[1] == 3 and b.x.dtype == torch.bfloat16 and x.shape == b.x.shape
        return text

    def static(self):
        uri = self.pictures.some(200)
        conf = dict(self.common, augment=CHAIN)
        a = batches(uri, **conf)[0]
        at, out = set(), []
        with larder.Loader(uri, device="cuda", static=True, **conf) as l:
            for b in l:
                at.add((b.x.data_ptr(), b.y.data_ptr()))
                out.append((b.x.cpu(), b.y.cpu()))
        assert len(at) == 1, at
        assert all(torch.equal(p[0], q[0]) and p[2] == q[1].tolist() for p, q in zip(a, out))
        net = torch.nn.Conv2d(3, 8, 3).cuda()
        with larder.Loader(uri, device="cuda", static=True, drop_last=True, decode="auto", **conf) as l:
            graph, sums = None, []
            for b in l:
                if graph is None:
                    torch.cuda.synchronize()
                    side = torch.cuda.Stream()
                    with torch.cuda.stream(side):
                        net(b.x)
                    torch.cuda.current_stream().wait_stream(side)
                    graph = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graph):
                        y = net(b.x).mean()
                graph.replay()
                sums.append((y.item(), net(b.x).mean().item()))
        assert all(abs(p - q) < 1e-4 for p, q in sums), sums
        return f"{len(out)} batches in one place, a graph replayed {len(sums)} times"

    def resume(self):
        uri = self.pictures.some(512)
        conf = dict(self.common, augment=["rrc:size=64,gap=0", "flip"], dtype="uint8")
        conf.update(batch_size=32, cache="30%", recipe="minio")
        whole = batches(uri, **conf)[0]
        with larder.Loader(uri, device="cuda", decode="gpu", **conf) as l:
            for i, b in enumerate(l):
                if i == 5:
                    state = l.state_dict()
                    break
        with larder.Loader(uri, device="cuda", decode="auto", **dict(conf, threads=2)) as l:
            l.load_state_dict(state)
            rest = [(b.x.cpu(), b.served.tolist(), b.y.tolist(), b.ids.tolist()) for b in l]
        text, most = differences(whole[6:], rest)
        assert most <= 2, text
        return text

    def broken(self):
        uri, said = self.pictures.broken(), []
        for how in ("skip", "replace"):
            text, most, a, b = self._decoded(uri, ["rrc:size=96,gap=0"], on_bad=how)
            assert most <= 2 and a == b, f"{how}: {text}: {a} and {b}"
            said.append(f"{how}: {text}, {len(b)} bad")
        try:
            batches(uri, device="cuda", decode="gpu", augment=BYTES, **self.common)
            raise AssertionError("nothing was said of broken files")
        except larder.Error as e:
            said.append(str(e)[:120])
        return "; ".join(said)

    def refusals(self):
        uri, said = self.pictures.some(64), []
        for chain, word in ((BYTES + ["erase"], "erase"), (BYTES + ["equalize"], "equalize")):
            try:
                larder.Loader(uri, device="cuda", decode="gpu", augment=chain, **self.common).close()
                raise AssertionError(f"{chain} was taken")
            except larder.Error as e:
                assert word in str(e), str(e)
                said.append(str(e)[:100])
        return "; ".join(said)

    def long_queue(self):
        """Work that the device is far behind with: memory is not written over under it."""
        uri = self.pictures.some(512)
        conf = dict(self.common, augment=["rrc:size=96,gap=0"], dtype="uint8", prefetch=2)
        a = batches(uri, **conf)[0]
        big, keep = torch.randn(4096, 4096, device="cuda"), []
        with larder.Loader(uri, device="cuda", decode="gpu", **conf) as l:
            for b in l:
                for _ in range(6):
                    big = big @ big
                    big = big / big.norm()
                keep.append((b.x.clone(), b.served.tolist(), b.y.tolist(), b.ids.tolist()))
        text, most = differences(a, [(k[0].cpu(),) + k[1:] for k in keep])
        assert most <= 2, text
        return text

    def bus(self):
        """Bytes that go to the device for a batch, asked of PyTorch's profiler."""
        from torch.profiler import ProfilerActivity, profile

        uri, said = self.pictures.some(256), []
        for name, more in (("as bytes", {}), ("decoded there", {"decode": "gpu"})):
            with larder.Loader(uri, device="cuda", augment=CHAIN, **dict(self.common, **more)) as l:
                it = iter(l)
                next(it)
                with profile(activities=[ProfilerActivity.CUDA]) as p:
                    for b in it:
                        pass
                    torch.cuda.synchronize()
                copies = [e for e in p.events() if "HtoD" in e.name]
                said.append(f"{name}: {len(copies)} copies to the device, kernels " + ", ".join(
                    f"{e.key[:24]} {e.device_time_total / 1e3:.2f} ms/{e.count}" for e in sorted(
                        p.key_averages(), key=lambda e: -e.device_time_total)[:5]))
        return "\n     ".join(said)

    def train(self):
        """ResNet-50, bf16, beside larder on 4 cores."""
        uri = self.pictures.some(2048)
        for decode in self.args.train_by.split(","):
            r = subprocess.run(["taskset", "-c", "0-3", sys.executable, os.path.abspath(__file__), "--rate", decode, "--uri",
                                uri, "--threads", "4", "--seconds", "5", "--train"], capture_output=True, text=True,
                               timeout=90)
            print(f"     4 cores {decode}: {r.stdout.strip() or r.stderr.strip()[-300:]}", flush=True)
        return "lines above"

    def rates(self):
        """larder alone, in a process of its own on so many cores."""
        uri = self.pictures.some(2048)
        out = []
        for threads in sorted({2, 4, self.args.threads, 16}):
            for decode in ("cpu", "gpu", "auto") + (("kernels",) if threads == self.args.threads else ()):
                cores = ",".join(str(i) for i in range(threads))
                more = {"LARDER_NVJPEG_KERNELS": "1"} if decode == "kernels" else {}
                r = subprocess.run(["taskset", "-c", cores, sys.executable, os.path.abspath(__file__), "--rate",
                                    "gpu" if more else decode, "--uri", uri, "--threads", str(threads), "--seconds",
                                    str(self.args.seconds)],
                                   capture_output=True, text=True, timeout=120, env=dict(os.environ, **more))
                out.append(f"{threads} cores {decode}: {r.stdout.strip() or r.stderr.strip()[-300:]}")
                print(f"     {out[-1]}", flush=True)
        return f"{len(out)} lines above"


def training():
    """A step of ResNet-50 as a CUDA graph; with no batch: images a second without a loader."""
    import torchvision

    net = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    sgd = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    x = torch.randn(256, 3, 224, 224, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    y = torch.zeros(256, dtype=torch.long, device="cuda")

    def one():
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        sgd.step()
        sgd.zero_grad(set_to_none=False)

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(4):
            one()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        one()

    def step(b, n):
        if b is not None:
            x.copy_(b.x, non_blocking=True)
            y.copy_(b.y % 1000, non_blocking=True)
            graph.replay()
            return 0
        graph.replay()
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(n):
            graph.replay()
        torch.cuda.synchronize()
        return 256 * n / (time.perf_counter() - begun)

    return step


def rate(args):
    """Images a second of one loader that nobody keeps waiting."""
    conf = dict(batch_size=256, cache="0", augment=CHAIN, dtype="bfloat16", layout="channels_last", threads=args.threads,
                device="cuda", decode=args.rate, prefetch=4, epochs=0, drop_last=True)
    with larder.Loader(args.uri, **conf) as l:
        def forever():
            while True:
                yield from l
        it, seen = forever(), 0
        step = training() if args.train else None
        alone = step(None, 20) if step else 0
        for _ in range(12):
            b = next(it)
            if step:
                step(b, 1)
        torch.cuda.synchronize()
        begun, cpu = time.perf_counter(), time.process_time()
        while time.perf_counter() - begun < args.seconds:
            b = next(it)
            seen += b.x.shape[0]
            if step:
                step(b, 1)
        torch.cuda.synchronize()
        took = time.perf_counter() - begun
        stats = l.stats()
        print((f"GPU alone {alone:.0f}/s, " if step else "") + f"{seen / took:.0f}/s, {(time.process_time() - cpu) / took:.2f} cores, GPU "
              f"{100 * stats.get('decoded_gpu', 0) / stats['samples']:.0f} %, share {stats.get('gpu_share', 0):.0f} %, "
              f"a batch's decode {1e3 * stats.get('gpu_decode_seconds', {}).get('mean', 0):.1f} ms")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--pictures")
    p.add_argument("--threads", type=int, default=8)
    p.add_argument("--seconds", type=float, default=4)
    p.add_argument("--patience", type=float, default=150, help="seconds that one check may take")
    p.add_argument("--only", default="")
    p.add_argument("--rate")
    p.add_argument("--uri")
    p.add_argument("--train", action="store_true")
    p.add_argument("--train-by", default="auto:fast,gpu:fast,auto,gpu,cpu", help="ways to decode that `train` tries")
    p.add_argument("--root", help="where pictures were made already: run the checks in this process")
    args = p.parse_args()
    if args.rate:
        rate(args)
        return 0
    names = [n for n in vars(Checks) if not n.startswith("_") and (not args.only or n in args.only.split(","))]
    return run(args, names) if args.root else run_apart(args, names)


def run_apart(args, names):
    """In a process of their own: one that crashes or hangs costs itself alone."""
    failed, root = 0, tempfile.mkdtemp()
    while names:
        command = [sys.executable, os.path.abspath(__file__), "--root", root, "--only", ",".join(names), "--threads",
                   str(args.threads), "--seconds", str(args.seconds), "--train-by", args.train_by]
        child = subprocess.Popen(command + (["--pictures", args.pictures] if args.pictures else []),
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        watch = threading.Timer(args.patience, child.kill)
        watch.start()
        last = []
        for line in child.stdout:
            last = (last + [line.rstrip()])[-6:]
            word = line.split()
            if len(word) > 1 and word[0] in ("ok", "FAILED") and word[1].rstrip(":") in names:
                names.remove(word[1].rstrip(":"))
                failed += word[0] == "FAILED"
                watch.cancel()
                watch = threading.Timer(args.patience, child.kill)
                watch.start()
            print(line, end="", flush=True)
        child.wait()
        watch.cancel()
        if names:
            print(f"FAILED {names.pop(0)}: its process ended with {child.returncode}: {' / '.join(last)[-600:]}", flush=True)
            failed += 1
    shutil.rmtree(root, ignore_errors=True)
    print(f"{failed} failed", flush=True)
    return 1 if failed else 0


def run(args, names):
    checks = Checks(args, Pictures(args.pictures, args.root))
    for name in names:
        begun = time.perf_counter()
        try:
            said = getattr(checks, name)()
            print(f"ok {name} ({time.perf_counter() - begun:.1f} s): {said}", flush=True)
        except BaseException as e:
            where = traceback.extract_tb(e.__traceback__)[-1]
            print(f"FAILED {name}: {type(e).__name__}: {str(e)[:1200]} ({os.path.basename(where.filename)}:{where.lineno})",
                  flush=True)
            if isinstance(e, KeyboardInterrupt):
                break
    return 0


if __name__ == "__main__":
    sys.exit(main())
