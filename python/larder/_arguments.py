"""What a caller asks for, checked, and written as the library takes it."""

from __future__ import annotations

import difflib
import inspect
import operator
import os
import stat
from typing import Any, Dict, List, Optional, Tuple

from . import _lib, _state, _torch
from ._errors import ArgumentError, FormatError


def whole(name: str, value: Any, least: int = 0, most: int = (1 << 32) - 1) -> int:
    """A whole number from `least` to `most`."""
    try:
        n = operator.index(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"{name} is a whole number, not {value!r}") from None
    if not least <= n <= most:
        raise ArgumentError(f"{name} is a whole number from {least} to {most}, not {value!r}")
    return n


def seed_of(seed: Any) -> int:
    return whole("seed", seed, most=(1 << 64) - 1)


def counts_of(**given: Any) -> Dict[str, int]:
    """Whole numbers from 0 on; batch_size from 1 on."""
    return {name: whole(name, value, int(name == "batch_size")) for name, value in given.items()}


def choice(table: Dict[str, int], name: str, value: Any) -> int:
    """One of the words that there are, as the library's number."""
    if not isinstance(value, str) or value not in table:
        raise ArgumentError(f"{name} is one of {', '.join(table)}, not {value!r}")
    return table[value]


def dtype_of(dtype: Any) -> int:
    """``"uint8"``, ``torch.uint8`` or ``numpy.uint8``."""
    return choice(_lib.DTYPES, "dtype", getattr(dtype, "__name__", str(dtype)).replace("torch.", ""))


def uri_of(uri: Any) -> str:
    """The name of a data set; a larder.Dataset stands for the one it reads."""
    if not isinstance(uri, (str, bytes, os.PathLike)):
        uri = getattr(uri, "uri", uri)
    try:
        return os.fsdecode(uri)
    except TypeError:
        raise TypeError(
            f"a data set is named by a text such as \"cifar10:data\" or a folder's path, not by {uri!r}"
        ) from None


def cache_of(cache: Any) -> str:
    """``"20%"``, ``"8GiB"``, or a whole number of bytes."""
    if isinstance(cache, str):
        return cache
    try:
        return str(whole("cache", cache, most=(1 << 63) - 1))
    except ArgumentError:
        raise ArgumentError(
            f'cache is a text such as "20%" or "8GiB", or a whole number of bytes, not {cache!r}'
        ) from None


def text_of(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ArgumentError(f"{name} is a text, not {value!r}")
    return value


def function(name: str, value: Any) -> Any:
    """A function or None."""
    if value is not None and not callable(value):
        raise ArgumentError(f"{name} is a function, not {value!r}")
    return value


def recipe_in_order(recipe: str, shuffle: bool) -> str:
    """The recipe; without shuffling one that goes by ids."""
    if shuffle:
        return recipe
    return recipe if "sampler=" in recipe else recipe_with(recipe, "sampler=sequential")


def recipe_with(recipe: str, parameter: str) -> str:
    return recipe + ("," if ":" in recipe else ":") + parameter


def replay_of(replay: Any) -> Tuple[Optional[str], Optional[bytes]]:
    """An earlier run, as the name of what it left or as the library's state inside a state_dict."""
    if replay is None:
        return None, None
    if isinstance(replay, dict):
        if replay.get("larder") is None:
            raise FormatError("replay is not a state of a larder.Loader")
        return None, _state.unwrap(replay["larder"])
    try:
        return os.fspath(replay), None
    except TypeError:
        raise ArgumentError(
            f"replay is the path of a folder, a record or a saved state, or a state_dict, not {replay!r}"
        ) from None


# What a DataLoader's arguments are called here, or what does their work.
_DATALOADER = {
    "num_workers": "larder's threads read and decode: threads=4, or leave it out for as many as there are cores; "
                   "processes that run dataset and functions of your own: workers=4",
    "persistent_workers": "threads and workers stay from epoch to epoch: leave it out",
    "prefetch_factor": "batches are made ahead by prefetch=, or leave it out",
    "pin_memory": "pin=True, or leave it out: with a CUDA device it is so anyway",
    "pin_memory_device": 'device="cuda:1"',
    "generator": "seed= sets order and augmentation",
    "multiprocessing_context": 'start="fork", "spawn" or "forkserver", for functions of your own',
    "timeout": "leave it out; what storage fails at is said by itself",
    "sampler": 'recipe= says which samples come ("minio": each once an epoch), shuffle=False: in the order of '
               "ids; with a sampler of your own: larder.Dataset in a DataLoader",
    "batch_sampler": "recipe= says which samples come; with a sampler of your own: larder.Dataset in a DataLoader",
    "batch": "batch_size=",
    "root": "the data set comes first and is named by its URI or folder: uri=",
}


class Arguments:
    """What a class of ours that checks its arguments' names takes, for help() and inspect."""

    def __get__(self, one: Any, kind: type) -> inspect.Signature:
        whole = inspect.signature(kind.__init__)  # type: ignore[misc]
        return whole.replace(parameters=[p for n, p in whole.parameters.items() if n != "self"])


def check_names(kind: type, given: Dict[str, Any]) -> None:
    """TypeError for an argument that is not there, with the one that does what it is for."""
    names = list(inspect.signature(kind).parameters)
    for name in given:
        if name in names:
            continue
        near = difflib.get_close_matches(name, names, 1)
        here = _DATALOADER.get(name) if "threads" in names else None
        words = here or (f"did you mean {near[0]}=?" if near else f"there are {', '.join(names)}")
        raise TypeError(f"larder.{kind.__name__} has no argument {name}: {words}")


def layout_of(layout: Any) -> Tuple[str, bool]:
    """As the library has it, and is x to be seen as n x c x h x w all the same?"""
    return ("NHWC", True) if layout == "channels_last" else (layout, False)


def decode_of(decode: Any) -> Tuple[Optional[str], Any]:
    """Where larder decodes, or a function that decodes samples of one's own."""
    if not isinstance(decode, str):
        return None, decode
    if decode not in ("cpu", "gpu", "auto", "gpu:fast", "auto:fast"):
        raise ArgumentError(f'decode is "cpu", "gpu" or "auto" (or "gpu:fast", "auto:fast"), or a function for what encoded= gives, not {decode!r}')
    return decode, None


def cage_of(cage: Any) -> bytes:
    """True, or limits as a text."""
    if not isinstance(cage, (bool, str)):
        raise ArgumentError(f'cage is True, False or limits as "memory=1GiB,seconds=30", not {cage!r}')
    return _lib.text(cage if isinstance(cage, str) else "on" if cage else "off") or b""


def conf_of(counts: Dict[str, int], **given: Any) -> _lib.Conf:
    """larder_loader_conf of a Loader's arguments; `counts` are checked already."""
    conf = _lib.Conf()
    for name, value in counts.items():
        setattr(conf, "batch" if name == "batch_size" else name, value)
    for name in ("source", "recipe", "cache", "augment"):
        setattr(conf, name, _lib.text(given[name]))
    conf.seed, conf.drop_last = seed_of(given["seed"]), bool(given["drop_last"])
    conf.rank, conf.world = whole("rank", given["rank"]), whole("world", given["world"], 1)
    conf.dtype = dtype_of(given["dtype"])
    conf.layout = choice(_lib.LAYOUTS, "layout", given["layout"])
    conf.on_bad = choice(_lib.ON_BAD, "on_bad", given["on_bad"])
    conf.parts = choice(_lib.PARTS, "parts", given["parts"])
    conf.views = whole("views", given.get("views", 1), 1)
    conf.cage = cage_of(given.get("cage", False))
    for name in ("fields", "target", "device", "decode"):
        if given.get(name) is not None:
            setattr(conf, name, _lib.text(given[name]))
    if given["replay"] is not None:
        conf.replay = _lib.text(given["replay"])
    if given["record"] is not None:
        conf.record = _lib.text(os.fspath(given["record"]))
    return conf


def shared_cache(cache: str, recipe: str, world: int) -> str:
    """Processes of torch.distributed with a cache in Redis, or in a daemon of the machine they are
    all on, have it together: under a name that the first of them makes up, unless one is given
    (``job=``; ``job=0``: each has its own)."""
    kinds = ("redis", "rediss", "redis+unix", "redis-cluster", "rediss-cluster")
    local = cache.startswith("unix:")
    if not (local or cache.partition("://")[0] in kinds) or not _torch.distributed():
        return cache  # also one with a cache of each process in front
    at, _, options = cache.partition("?")
    if any(o.startswith(("job=", "shared=")) for o in options.split("&")):
        return cache
    dist = _torch.module().distributed
    if local and ("plan=auto" in recipe or world != dist.get_world_size()):
        return cache  # planned by the daemon; or not all processes are here
    import secrets

    told: List[Any] = [None] * dist.get_world_size()
    group = dist.new_group(backend="gloo")
    dist.all_gather_object(told, (secrets.token_hex(8), _socket(at) if local else None), group=group)
    dist.destroy_process_group(group)
    if len({where for _, where in told}) > 1:
        return cache  # several machines: each has its own daemon
    return f"{cache}{'&' if options else '?'}job={told[0][0]}"


def _socket(at: str) -> Optional[Tuple[str, int, int]]:
    """Which socket "unix:PATH" means, on which machine; None: there is none."""
    path = at[len("unix:"):] or (os.environ.get("LARDER_SOCKET") or "").partition("?")[0]
    if not path:
        run = os.environ.get("XDG_RUNTIME_DIR") or ""
        path = os.path.join(run if _own(run) else f"/tmp/larder-{os.geteuid()}", "larder.sock")
    try:
        with open("/proc/sys/kernel/random/boot_id") as f:
            machine = f.read()
        file = os.stat(path)
    except OSError:
        return None
    return machine, file.st_dev, file.st_ino


def _own(folder: str) -> bool:
    """Is it a folder for this user alone? As src/shared/daemon_address.c has it."""
    try:
        s = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(s.st_mode) and s.st_uid == os.geteuid() and not s.st_mode & 0o077
