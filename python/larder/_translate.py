"""torchvision's transforms as native stages. What is translated keeps all its parameters; what is not known is said,
and then nothing is translated."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence


class Unknown(Exception):
    """This part has no stage of ours."""


class Translated(NamedTuple):
    text: Optional[str]  # None: `why` says which part is not known
    dtype: Optional[str]  # what comes out, where the transforms say it
    why: str


def is_torchvision(t: Any) -> bool:
    """One of its own classes; a class derived from them may do anything."""
    return type(t).__module__.startswith("torchvision.transforms")


def _number(v: float) -> str:
    return repr(int(v)) if float(v) == int(v) else repr(float(v))


def _joined(values: Sequence[float]) -> str:
    return "/".join(_number(v) for v in values)


def _stage(name: str, **args: Any) -> str:
    given = ",".join(f"{k}={v}" for k, v in args.items() if v is not None)
    return f"{name}:{given}" if given else name


def _sides(size: Any) -> Dict[str, Any]:
    both = [size] if isinstance(size, int) else list(size)
    return {"size": both[0]} if len(both) == 1 else {"h": both[0], "w": both[1]}


def _both_sides(size: Any) -> Dict[str, Any]:
    """Of stages whose one number is both sides."""
    both = [size] if isinstance(size, int) else list(size)
    h, w = both[0], both[-1]
    return {"size": h} if h == w else {"h": h, "w": w}


_FILTERS = {"bilinear": "bilinear", "bicubic": "bicubic", "nearest": "nearest"}


def _filter(t: Any) -> str:
    name = getattr(t.interpolation, "value", t.interpolation)
    if name not in _FILTERS:
        raise Unknown(f"interpolation {name}")
    return _FILTERS[name]


def _fill(fill: Any) -> Optional[str]:
    if isinstance(fill, dict):  # v2: by type
        kinds = set(map(str, fill.values()))
        if len(kinds) != 1:
            raise Unknown("fill by type")
        fill = next(iter(fill.values()))
    if fill is None or fill == 0:
        return None
    levels = [fill] if isinstance(fill, (int, float)) else list(fill)
    if not all(isinstance(v, (int, float)) and 0 <= v <= 255 for v in levels) or len(levels) > 3:
        raise Unknown(f"fill {fill!r}")
    return _joined([int(v) for v in levels])


def _mode(t: Any) -> Optional[str]:
    return None if t.padding_mode == "constant" else str(t.padding_mode)


def _centred(t: Any) -> None:
    if getattr(t, "center", None) is not None:
        raise Unknown("center")


class _Chain:
    def __init__(self) -> None:
        self.stages: List[str] = []
        self.kind = "pil"  # of a picture: "pil", "u8" (tensor) or "float"
        self.half: Optional[str] = None  # float16 or bfloat16 at the end
        self.toned = False

    def add(self, stage: str, tone: bool = False, moves: bool = False) -> None:
        """`moves`: whole pixels change places, which is the same before the conversion and after it."""
        if self.half:
            raise Unknown("a transform after the conversion to 16 bits")
        if self.kind == "float" and not tone and (not moves or self.toned):
            raise Unknown("a transform of pixels after the conversion to floating point")
        self.toned |= tone
        self.stages.append(stage)

    def alias(self, t: Any) -> Optional[str]:
        """PIL always looks at all pixels; tensors do if they are told to."""
        if self.kind == "pil" or _filter(t) == "nearest":
            return None
        told = getattr(t, "antialias", None)
        return None if told is True else "no"


def _resize(c: _Chain, t: Any) -> None:
    given = _sides(t.size)
    c.add(_stage("resize", **given, max=t.max_size, interpolation=_usual(_filter(t), "bilinear"),
                 antialias=c.alias(t)))


def _usual(value: str, usual: str) -> Optional[str]:
    return None if value == usual else value


def _rrc(c: _Chain, t: Any) -> None:
    c.add(_stage("rrc", **_both_sides(t.size), scale=_joined(t.scale), ratio=_joined(t.ratio),
                 interpolation=_usual(_filter(t), "bilinear"), antialias=c.alias(t)))


def _pad_stage(padding: Any, t: Any) -> str:
    by = [padding] if isinstance(padding, int) else list(padding)
    if any(v < 0 for v in by):
        raise Unknown("negative padding")
    return _stage("pad", by=_joined(by), fill=_fill(t.fill), mode=_mode(t))


def _crop(c: _Chain, t: Any) -> None:
    padding, pad = t.padding, None
    if padding is not None and not isinstance(padding, int):
        if len(set(padding)) == 1:
            padding = padding[0]
        else:
            if t.pad_if_needed:
                raise Unknown("padding by side with pad_if_needed")
            c.add(_pad_stage(padding, t))
            padding = None
    pad = padding or None
    c.add(_stage("crop", **_both_sides(t.size), pad=pad, enough="yes" if t.pad_if_needed else None,
                 fill=_fill(t.fill) if pad or t.pad_if_needed else None,
                 mode=_mode(t) if pad or t.pad_if_needed else None), moves=_fill(t.fill) is None)


def _flip(name: str) -> Callable[[_Chain, Any], None]:
    return lambda c, t: c.add(_stage(name, p=_number(t.p)), moves=True)


def _jitter(c: _Chain, t: Any, p: float = 1) -> None:
    given = {name: _joined(getattr(t, name)) for name in ("brightness", "contrast", "saturation", "hue")
             if getattr(t, name) is not None}
    if given:
        c.add(_stage("jitter", **given, p=_usual(_number(p), "1")))


def _blur(c: _Chain, t: Any, p: float = 1) -> None:
    c.add(_stage("blur", kernel=_joined(t.kernel_size), sigma=_joined(t.sigma), p=_usual(_number(p), "1")))


def _grey(c: _Chain, t: Any, p: float = 1) -> None:
    if getattr(t, "num_output_channels", 3) != 3:
        raise Unknown("one channel")
    c.add(_stage("grey", p=_number(p * getattr(t, "p", 1))))


def _simple(name: str, **attributes: str) -> Callable[..., None]:
    def add(c: _Chain, t: Any, p: float = 1) -> None:
        given = {ours: _number(getattr(t, theirs)) for ours, theirs in attributes.items()}
        c.add(_stage(name, **given, p=_number(p * t.p)))

    return add


def _rotation(c: _Chain, t: Any) -> None:
    _centred(t)
    c.add(_stage("rotation", degrees=_joined(t.degrees), interpolation=_usual(_filter(t), "nearest"),
                 fill=_fill(t.fill), expand="yes" if t.expand else None))


def _affine(c: _Chain, t: Any) -> None:
    _centred(t)
    c.add(_stage("affine", degrees=_joined(t.degrees), translate=_joined(t.translate) if t.translate else None,
                 scale=_joined(t.scale) if t.scale else None, shear=_joined(t.shear) if t.shear else None,
                 interpolation=_usual(_filter(t), "nearest"), fill=_fill(t.fill)))


def _randaugment(c: _Chain, t: Any) -> None:
    c.add(_stage("randaugment", ops=t.num_ops, magnitude=t.magnitude, bins=t.num_magnitude_bins,
                 interpolation=_usual(_filter(t), "nearest"), fill=_fill(t.fill)))


def _trivial(c: _Chain, t: Any) -> None:
    c.add(_stage("trivialaugment", bins=t.num_magnitude_bins, interpolation=_usual(_filter(t), "nearest"),
                 fill=_fill(t.fill)))


def _autoaugment(c: _Chain, t: Any) -> None:
    c.add(_stage("autoaugment", policy=t.policy.value, interpolation=_usual(_filter(t), "nearest"),
                 fill=_fill(t.fill)))


def _erase(c: _Chain, t: Any) -> None:
    if c.kind != "float":
        raise Unknown("erasing of whole numbers")
    value = "random" if t.value in ("random", None) else _joined(
        [t.value] if isinstance(t.value, (int, float)) else t.value)
    c.add(_stage("erase", p=_number(t.p), scale=_joined(t.scale), ratio=_joined(t.ratio), value=value), tone=True)


def _normalize(c: _Chain, t: Any) -> None:
    if c.kind != "float":
        raise Unknown("normalizing of whole numbers")
    c.add(_stage("normalize", mean=_joined([float(v) for v in t.mean]), std=_joined([float(v) for v in t.std])),
          tone=True)


def _to_tensor(c: _Chain, t: Any) -> None:
    c.kind = "float"


def _to_u8(c: _Chain, t: Any) -> None:
    c.kind = "u8" if c.kind == "pil" else c.kind


def _to_dtype(c: _Chain, t: Any) -> None:
    name = str(t.dtype).replace("torch.", "")
    if name == "uint8" and c.kind != "float":
        return
    if name not in ("float32", "float16", "bfloat16") or not getattr(t, "scale", True) or c.kind == "pil":
        raise Unknown(f"conversion to {name}")
    c.kind = "float"
    c.half = name if name != "float32" else c.half


def _nothing(c: _Chain, t: Any) -> None:
    pass


_KNOWN: Dict[str, Callable[..., None]] = {
    "Resize": _resize, "CenterCrop": lambda c, t: c.add(_stage("centercrop", **_both_sides(t.size)), moves=True),
    "RandomCrop": _crop, "RandomResizedCrop": _rrc, "Pad": lambda c, t: c.add(_pad_stage(t.padding, t)),
    "RandomHorizontalFlip": _flip("flip"), "RandomVerticalFlip": _flip("vflip"), "ColorJitter": _jitter,
    "RandomGrayscale": _grey, "Grayscale": _grey, "GaussianBlur": _blur,
    "RandomSolarize": _simple("solarize", threshold="threshold"), "RandomPosterize": _simple("posterize", bits="bits"),
    "RandomEqualize": _simple("equalize"), "RandomAutocontrast": _simple("autocontrast"),
    "RandomInvert": _simple("invert"), "RandomAdjustSharpness": _simple("sharpness", factor="sharpness_factor"),
    "RandomRotation": _rotation, "RandomAffine": _affine, "RandAugment": _randaugment,
    "TrivialAugmentWide": _trivial, "AutoAugment": _autoaugment, "RandomErasing": _erase, "Normalize": _normalize,
    "ToTensor": _to_tensor, "PILToTensor": _to_u8, "ToImage": _to_u8, "ConvertImageDtype": _to_dtype,
    "ToDtype": _to_dtype, "ToPureTensor": _nothing, "RGB": _nothing, "Identity": _nothing,
}
_WITH_P = {"ColorJitter", "GaussianBlur", "RandomGrayscale", "Grayscale", "RandomSolarize", "RandomPosterize",
           "RandomEqualize", "RandomAutocontrast", "RandomInvert", "RandomAdjustSharpness"}


def _add(c: _Chain, t: Any) -> None:
    name = type(t).__name__
    if type(t).__module__.startswith("torch.nn.modules") and name in ("Sequential", "ModuleList"):
        for one in t:
            _add(c, one)
    elif name == "Identity" and type(t).__module__.startswith("torch.nn"):
        pass
    elif not is_torchvision(t):
        raise Unknown("it is not torchvision's")
    elif name == "Compose":
        for one in t.transforms:
            _add(c, one)
    elif name == "RandomApply":
        inside = list(t.transforms)
        if len(inside) != 1 or not is_torchvision(inside[0]) or type(inside[0]).__name__ not in _WITH_P:
            raise Unknown("what it applies has to be one transform of colours")
        _KNOWN[type(inside[0]).__name__](c, inside[0], t.p)
    elif name in _KNOWN:
        _KNOWN[name](c, t)
    else:
        raise Unknown("there is no such stage")


def translate(transforms: Any) -> Translated:
    """A Compose, or one transform, as a text of stages."""
    chain = _Chain()
    parts = transforms.transforms if type(transforms).__name__ == "Compose" else [transforms]
    for part in parts:
        try:
            _add(chain, part)
        except Unknown as e:
            return Translated(None, None, f"{type(part).__name__}: {e}")
        except (AttributeError, TypeError, ValueError, IndexError) as e:  # another version's
            return Translated(None, None, f"{type(part).__name__}: its parameters are not as they were ({e})")
    dtype = {"pil": None, "u8": "uint8", "float": chain.half or "float32"}[chain.kind]
    return Translated("|".join(chain.stages), dtype, "")
