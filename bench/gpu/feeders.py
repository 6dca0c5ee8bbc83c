"""The loaders that bench/gpu/feed.py compares: each gives batches (x, y) on the device, epoch after epoch.

All crop at random to --side pixels, flip half of the pictures and normalise, as for ImageNet. A feeder is a
function of a line (what is asked for) and the settings, and gives an iterable that is begun anew each epoch. What a
peer needs is imported when it is asked for: the line fails with the reason where it is not there."""
import glob
import os

import torch

MEAN, STD = [.485, .456, .406], [.229, .224, .225]


def where(line, a):
    """Folder of the data, by its form. Cold and throttled lines take each file once."""
    form = {"folder": "folder", "tar": "tar", "pack": "packed", "shrunk": "shrunk"}[line["data"]]
    return os.path.join(a.data, "once" if form == "folder" and line["store"] != "warm" else form)


def tars(line, a):
    return sorted(glob.glob(os.path.join(where(line, a), "*.tar")))


def drop_pages(line, a):
    """The files leave the page cache."""
    names = [os.path.join(d, f) for d, _, files in os.walk(where(line, a)) for f in files]
    for name in names:
        fd = os.open(name, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def larder_uri(line, a):
    folder = where(line, a)
    if line["data"] == "tar":
        last = len(tars(line, a)) - 1
        uri = f"tar:{folder}/train-{{000000..{last:06d}}}.tar"
    else:
        uri = ("dir:" if line["data"] == "folder" else "pack:") + folder
    return f"slow:{a.slow}:{uri}" if line["store"].startswith("slow") else uri


class Larder:
    def __init__(self, line, a):
        import larder

        more = {}
        if line["decode"] != "cpu":
            more["decode"] = line["decode"]
        if a.device == "cuda":
            more.update(device="cuda", layout="channels_last", dtype="bfloat16")
        # Files are in the page cache; from slow storage half of them stay in larder's.
        cache = "50%" if line["store"] == "slow+cache" else "0"
        self.loader = larder.Loader(
            larder_uri(line, a), line["batch"], cache=cache, threads=line["cores"], drop_last=True, record="",
            augment=[f"rrc:size={a.side}", "flip", "normalize:preset=imagenet"], **more)

    def __iter__(self):
        for b in self.loader:
            yield b.x, b.y

    def about(self):
        """What larder says of itself: where pictures were decoded, what it waited for."""
        stats = self.loader.stats()
        return {k: v for k, v in stats.items() if not isinstance(v, dict) and ("gpu" in k or "decode" in k)}


class Moved:
    """Batches of a DataLoader, on the device."""

    def __init__(self, batches, a):
        self.batches, self.device = batches, a.device

    def __iter__(self):
        for x, y in self.batches:
            yield x.to(self.device, non_blocking=True), y.to(self.device, non_blocking=True)


def usual_transforms(a):
    from torchvision import transforms as t

    return t.Compose([t.RandomResizedCrop(a.side), t.RandomHorizontalFlip(), t.ToTensor(), t.Normalize(MEAN, STD)])


def data_loader(data, line, a, **more):
    """As PyTorch's guide to tuning says."""
    given = dict(batch_size=line["batch"], num_workers=line["cores"], pin_memory=a.device == "cuda",
                 persistent_workers=True, drop_last=True)
    return torch.utils.data.DataLoader(data, **{**given, **more})


def dataloader(line, a):
    from torchvision.datasets import ImageFolder

    return Moved(data_loader(ImageFolder(where(line, a), usual_transforms(a)), line, a, shuffle=True), a)


class Bytes(torch.utils.data.Dataset):
    """Files as they are, for whoever decodes elsewhere."""

    def __init__(self, folder):
        from torchvision.datasets import ImageFolder

        self.files = ImageFolder(folder).samples

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        from torchvision.io import read_file

        return read_file(self.files[i][0]), self.files[i][1]


def end_to_end(samples):
    """One tensor of bytes, where each file ends, labels: hundreds of small tensors are slow to send."""
    return torch.cat([s[0] for s in samples]), [len(s[0]) for s in samples], torch.tensor([s[1] for s in samples])


class Torchvision:
    """decode_jpeg on the GPU, which is nvJPEG, a batch at a time, and v2 transforms there; workers read files."""

    def __init__(self, line, a):
        from torchvision.transforms import v2

        self.batches = data_loader(Bytes(where(line, a)), line, a, shuffle=True, collate_fn=end_to_end)
        self.device = a.device
        self.crop = v2.Compose([v2.RandomResizedCrop(a.side, antialias=True), v2.RandomHorizontalFlip()])
        self.last = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])

    def __iter__(self):
        from torchvision.io import ImageReadMode, decode_jpeg

        for together, sizes, y in self.batches:
            files = torch.split(together, sizes)
            # The list is decoded in one call where the GPU does it.
            pictures = (decode_jpeg(list(files), ImageReadMode.RGB, device="cuda") if self.device == "cuda" else
                        [decode_jpeg(f, ImageReadMode.RGB) for f in files])
            x = torch.stack([self.crop(p) for p in pictures])
            yield self.last(x), y.to(self.device, non_blocking=True)


def webdataset(line, a):
    import webdataset as wds

    transform = usual_transforms(a)
    shards = tars(line, a)
    data = (wds.WebDataset(shards, shardshuffle=len(shards))
            .shuffle(1000).decode("pil").to_tuple("jpg", "cls")
            .map_tuple(lambda p: transform(p.convert("RGB")), int).batched(line["batch"], partial=False))
    batches = wds.WebLoader(data, batch_size=None, num_workers=min(line["cores"], len(shards)),
                            pin_memory=a.device == "cuda", persistent_workers=True)
    return Moved(batches, a)


def streaming(line, a):
    """MosaicML's, from shards of its own that the first line writes."""
    from streaming import MDSWriter, StreamingDataset

    out = os.path.join(a.data, "mds")
    if not os.path.exists(os.path.join(out, "index.json")):
        with MDSWriter(out=out, columns={"jpg": "bytes", "cls": "int"}) as w:
            files = Bytes(os.path.join(a.data, "once"))
            for i in range(len(files)):
                data, label = files[i]
                w.write({"jpg": data.numpy().tobytes(), "cls": label})
    transform = usual_transforms(a)

    class Pictures(StreamingDataset):
        def __getitem__(self, i):
            import io

            from PIL import Image

            sample = super().__getitem__(i)
            return transform(Image.open(io.BytesIO(sample["jpg"])).convert("RGB")), sample["cls"]

    return Moved(data_loader(Pictures(local=out, shuffle=True, batch_size=line["batch"]), line, a), a)


def ffcv(line, a):
    import ffcv  # noqa: F401

    raise NotImplementedError("ffcv imports, but no line was written for it")


class Static:
    """The same batch again and again, in the GPU's memory: the limit."""

    def __init__(self, line, a):
        self.x = torch.randn(line["batch"], 3, a.side, a.side, device=a.device)
        if a.device == "cuda":
            self.x = self.x.bfloat16().contiguous(memory_format=torch.channels_last)
        self.y = torch.randint(1000, (line["batch"],), device=a.device)

    def __iter__(self):
        while True:
            yield self.x, self.y


FEEDERS = {"larder": Larder, "dataloader": dataloader, "torchvision": Torchvision, "webdataset": webdataset,
           "streaming": streaming, "ffcv": ffcv, "static": Static}
