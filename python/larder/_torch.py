"""PyTorch, where it is there. Nothing of larder imports it: a program that has not done so gets NumPy
arrays, and pays nothing."""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from typing import Any, Optional, Tuple

from ._errors import ArgumentError, LarderWarning


def wanted(given: Optional[bool] = None) -> bool:
    """Are batches tensors? As said; else where torch is installed."""
    if given is not None:
        return given
    return "torch" in sys.modules or importlib.util.find_spec("torch") is not None


def module() -> Any:
    """torch, imported."""
    try:
        import torch
    except ImportError as missing:
        raise ImportError(
            "tensors and devices want PyTorch (apt install python3-torch, or pip install torch); without it "
            "leave out device=, torch=True and score_on_device=: batches are NumPy arrays then"
        ) from missing
    return torch


def device(given: Any) -> Any:
    """A torch.device that is there."""
    torch = module()
    found = torch.device(given)
    if found.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (found.index or 0) >= count:
            raise ArgumentError(
                f"device={given!r}: this PyTorch sees {count or 'no'} CUDA device{'s' * (count > 1)}; leave "
                "device out and batches stay in memory"
            )
    return found


def is_tensor(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def cuda_ready() -> bool:
    """Can tensors go to a CUDA device? Not in a forked child of a process that has used one."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return False
    return not getattr(torch.cuda, "_is_in_bad_fork", bool)()


def distributed() -> bool:
    """Are we one of the processes of torch.distributed?"""
    torch = sys.modules.get("torch")
    if torch is None:  # then nobody can have said so
        return False
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


def place(rank: Optional[int], world: Optional[int]) -> Tuple[int, int]:
    """Rank and number of processes: as given, else as torch.distributed says, else 0 of 1."""
    if rank is not None or world is not None:
        return (0 if rank is None else rank, 1 if world is None else world)
    if distributed():
        dist = module().distributed
        return dist.get_rank(), dist.get_world_size()
    _look_for_launcher()
    return 0, 1


def _look_for_launcher() -> None:
    """Started as one of several, but nobody has said so to torch.distributed yet: then every process
    would get everything, and nothing would tell."""
    launched = os.environ.get("WORLD_SIZE", "")
    if launched.isdigit() and int(launched) > 1 and "RANK" in os.environ:
        warnings.warn(
            f"larder: WORLD_SIZE is {launched}, but torch.distributed is not initialised: each process gets "
            "the whole data set. Open the loader after init_process_group, or give rank= and world= "
            "(rank=0, world=1 where all of it is meant)",
            stacklevel=4,
        )


def warn_unheard(world: int) -> None:
    """Ranks by rank= and world= alone, each with its own cache: nobody carries what they say."""
    warnings.warn(
        f"larder: the {world} processes tell each other nothing: each goes by what training says of its own rows, so "
        "they may draw different batches. Name one cache for all (cache='unix:PATH?job=NAME' or "
        "'redis://HOST?job=NAME'), or open the loader under torch.distributed",
        stacklevel=3,
    )


def number_of(found: Any) -> int:
    """Of a CUDA device, as CUDA counts."""
    return int(found.index if found.index is not None else module().cuda.current_device())


def show_libraries() -> None:
    """Where PyTorch and torchvision keep CUDA's libraries, for larder's own looking for them: said once, in the
    environment, unless somebody has said it."""
    import glob

    root = os.path.dirname(os.path.dirname(module().__file__))
    if not os.environ.get("LARDER_CUDA_LIBRARIES"):
        folders = sorted(glob.glob(os.path.join(root, "nvidia", "*", "lib"))) + [os.path.join(root, "torch", "lib")]
        os.environ["LARDER_CUDA_LIBRARIES"] = ":".join(folders)
    found = sorted(glob.glob(os.path.join(root, "torchvision.libs", "libnvjpeg*.so*")))
    if found and not os.environ.get("LARDER_NVJPEG"):
        os.environ["LARDER_NVJPEG"] = found[-1]


_few_queues = False


def open_queues() -> None:
    """CUDA opens 8 queues a process by itself, and nvJPEG alone has 14 streams: what shares a queue with training
    waits for it. It reads how many when the device is first used, so that larder says so when it is imported."""
    global _few_queues
    if not os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS"):
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        _few_queues = bool(getattr(cuda, "is_initialized", bool)())
        os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "32"


def check_queues() -> None:
    """For who decodes on the device."""
    if _few_queues:
        warnings.warn(
            "larder was imported after the GPU had been used: pictures that the GPU decodes may wait for training, since "
            "they share its 8 queues. Import larder first, or start with CUDA_DEVICE_MAX_CONNECTIONS=32",
            LarderWarning,
            stacklevel=3,
        )


_cudart: Any = None


def host_register() -> Optional[Tuple[int, int]]:
    """Addresses of cudaHostRegister and cudaHostUnregister in the CUDA runtime that torch has
    loaded, or None. They fit into larder_loader_conf as they are."""
    global _cudart
    import ctypes
    import glob

    if not cuda_ready():
        return None
    if _cudart is None:
        torch = module()
        torch.cuda.init()
        names = []
        try:  # whatever copy of it is mapped into this process already
            with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
                names = sorted({l.split()[-1] for l in maps if "libcudart" in l and ".so" in l})
        except OSError:
            pass
        root = os.path.dirname(torch.__file__)
        names += sorted(glob.glob(os.path.join(root, "lib", "libcudart*.so*")))
        for name in names + [None]:
            try:
                lib = ctypes.CDLL(name)
                pair = (
                    ctypes.cast(lib.cudaHostRegister, ctypes.c_void_p).value,
                    ctypes.cast(lib.cudaHostUnregister, ctypes.c_void_p).value,
                )
            except (OSError, AttributeError):
                continue
            if all(pair):
                _cudart = (lib, pair)
                break
        else:
            _cudart = (None, None)
    return _cudart[1]
