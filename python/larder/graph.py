"""The scores of `spider` on a device: embeddings stay there, neighbours are counted by matrix products,
all of them. What goes to larder is a score a sample and a few hubs (signal `given`)."""

from __future__ import annotations

from typing import Any, Dict, Optional

from . import _torch

STEP_FIRST, STEP_LEAST, STEP_MOST = 0.05, 5e-4, 0.1  # as the signal `graph` steers its radius
PAIRS = 4096
CHUNK = 1 << 14  # rows of the table at a time


class Graph:
    """A table of embeddings and what the signal `graph` works out of it, with the same formulas
    (docs/graph.md), in tensors wherever the embeddings are. Nothing here waits for the device."""

    def __init__(self, n: int, degree: float = 150, cap: float = 500, hubs: int = 4,
                 most: int = 500) -> None:
        self.n, self.degree, self.cap, self.hubs, self.most = n, degree, cap, hubs, most
        self.x: Any = None
        self.label: Any = None  # -2: never seen
        self.radius: Any = None
        self.step: Any = None
        self.turn: Any = None
        self.seen: Any = None  # on the host: which ids came

    def _open(self, emb: Any) -> None:
        import numpy

        torch = _torch.module()
        place = dict(device=emb.device)
        self.x = torch.zeros(self.n, emb.shape[1], dtype=torch.float32, **place)
        self.label = torch.full((self.n,), -2, dtype=torch.int64, **place)
        self.step = torch.tensor(STEP_FIRST, dtype=torch.float64, **place)
        self.turn = torch.tensor(0, dtype=torch.float64, **place)
        self.seen = numpy.zeros(self.n, bool)

    def score(self, served: Any, labels: Any, emb: Any) -> Any:
        """Enters a batch and answers with what signal `given` takes, on the same device."""
        import numpy

        torch = _torch.module()
        emb = emb.detach().reshape(emb.shape[0], -1)
        if self.x is None:
            self._open(emb)
        elif emb.shape[1] != self.x.shape[1]:
            raise ValueError(
                f"embeddings had {self.x.shape[1]} dimensions, now {emb.shape[1]}"
            )
        # Of an id that comes twice the last row counts; rows go by id.
        unique, first = numpy.unique(served[::-1], return_index=True)
        row = len(served) - 1 - first
        device = emb.device
        ids = torch.from_numpy(unique.astype("int64")).to(device, non_blocking=True)
        at = torch.from_numpy(row.astype("int64")).to(device, non_blocking=True)
        own = torch.from_numpy(labels[row].astype("int64")).to(device, non_blocking=True)
        x = emb[at].float()
        square = x.double().square().sum(1)
        fine = square < 1e30
        scale = torch.where(square > 0, square.rsqrt(), torch.ones_like(square)).float()
        x = torch.where(fine[:, None], x * scale[:, None], torch.zeros_like(x))
        self.x[ids] = torch.where(fine[:, None], x, self.x[ids])
        before = self.label[ids]
        own = torch.where(before == -2, own.clamp(min=-1), before)
        self.label[ids] = torch.where(fine, own, before)
        self.seen[unique] = True
        rows = int(self.seen.sum())
        want = min(self.degree, rows / 8)
        if self.radius is None:
            if len(unique) < 2:
                return self._answer(len(served), at, None, None, None)
            self.radius = self._guess(x, want / rows)
        same, other = self._count(x, ids, own)
        scale = (self.cap / (same + other).clamp(min=1)).clamp(max=1)
        score = torch.log(
            1 / (same * scale).clamp(min=1) + other * scale / self.cap + 1
        ).float()
        score = torch.where(fine, score, torch.full_like(score, float("nan")))
        hubs = self._hubs(x, ids, own, torch.where(fine, same, torch.zeros_like(same)))
        self._steer(same + other, want)
        return self._answer(len(served), at, score, *hubs)

    def _guess(self, x: Any, share: float) -> Any:
        torch = _torch.module()
        n = min(len(x), PAIRS)
        parts, count, gap = [], 0, 1
        while gap < n and count + n <= PAIRS:
            parts.append((x[: n - gap].double() - x[gap:n].double()).square().sum(1).sqrt())
            count += n - gap
            gap += 1
        ordered = torch.cat(parts).sort().values
        return ordered[int(share * (count - 1))].clamp(min=1e-6)

    def _square(self, x: Any, lo: int, hi: int) -> Any:
        """Squared distances to rows lo … hi of the table."""
        t = self.x[lo:hi]
        d = x.square().sum(1)[:, None] + t.square().sum(1)[None, :] - 2 * (x @ t.T)
        return d.clamp(min=0)

    def _near(self, x: Any, ids: Any, lo: int, hi: int) -> Any:
        torch = _torch.module()
        d = self._square(x, lo, hi)
        label = self.label[lo:hi]
        near = (d <= (self.radius * self.radius).float()) & (label != -2)[None, :]
        near &= ids[:, None] != torch.arange(lo, hi, device=x.device)[None, :]
        return d, near, label

    def _count(self, x: Any, ids: Any, own: Any) -> Any:
        torch = _torch.module()
        same = torch.zeros(len(x), dtype=torch.float64, device=x.device)
        total = torch.zeros_like(same)
        for lo in range(0, self.n, CHUNK):
            hi = min(lo + CHUNK, self.n)
            _, near, label = self._near(x, ids, lo, hi)
            total += near.sum(1)
            same += (near & (label[None, :] == own[:, None])).sum(1)
        return same, total - same

    def _hubs(self, x: Any, ids: Any, own: Any, same: Any) -> Any:
        """The rows with most neighbours of their class, the lower id first among equals; and those
        neighbours, nearest first."""
        torch = _torch.module()
        k = min(self.hubs, len(ids))
        rank = same * len(ids) - torch.arange(len(ids), device=x.device, dtype=torch.float64)
        best = rank.topk(k).indices
        d = torch.empty(k, self.n, device=x.device)
        for lo in range(0, self.n, CHUNK):
            hi = min(lo + CHUNK, self.n)
            far, near, label = self._near(x[best], ids[best], lo, hi)
            near &= label[None, :] == own[best][:, None]
            d[:, lo:hi] = torch.where(near, far, torch.full_like(far, float("inf")))
        most = min(self.most, self.n)
        nearest = d.topk(most, largest=False)
        return ids[best], nearest.indices, torch.isfinite(nearest.values).sum(1)

    def _steer(self, totals: Any, want: float) -> None:
        torch = _torch.module()
        ordered = totals.sort().values
        n = len(ordered)
        median = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
        turn = (median < want).double() - (median > want).double()
        again = (self.step * 1.2).clamp(max=STEP_MOST)
        back = torch.where(self.turn != 0, (self.step / 2).clamp(min=STEP_LEAST), self.step)
        step = torch.where(turn == self.turn, again, back)
        moved = turn != 0
        self.step = torch.where(moved, step, self.step)
        self.radius = (self.radius * torch.exp(turn * self.step)).clamp(1e-6, 1e18)
        self.turn = torch.where(moved, turn, self.turn)

    def _answer(self, n: int, at: Any, score: Any, keys: Any, lists: Any, counts: Any = None) -> Any:
        """Scores in the report's own order, and hubs as words that pass for floats."""
        torch = _torch.module()
        device = at.device
        column = torch.full((n,), float("nan"), device=device)
        if score is None:
            return column[:, None]
        column[at] = score
        words = self.hubs * (2 + self.most)
        wide = -(-words // n)
        flat = torch.zeros(n * wide, dtype=torch.int32, device=device)
        k, most = lists.shape
        block = flat[:words].view(self.hubs, 2 + self.most)
        block[:k, 0] = keys.int()
        block[:k, 1] = counts.int()
        block[:k, 2 : 2 + most] = lists.int()
        return torch.cat([column[:, None], flat.view(torch.float32).reshape(n, wide)], 1)

    # ---- state --------------------------------------------------------------------------------

    def state_dict(self) -> Optional[Dict[str, Any]]:
        if self.x is None:
            return None
        names = ("x", "label", "radius", "step", "turn")
        state = {k: None if getattr(self, k) is None else getattr(self, k).cpu() for k in names}
        return dict(state, seen=self.seen.copy(), device=str(self.x.device))

    def load_state_dict(self, state: Optional[Dict[str, Any]]) -> None:
        if state is None:
            self.x = None
            return
        torch = _torch.module()
        device = state["device"] if torch.cuda.is_available() else "cpu"
        for k in ("x", "label", "radius", "step", "turn"):
            setattr(self, k, None if state[k] is None else state[k].to(device))
        self.seen = state["seen"].copy()


OF_GRAPH = (
    "engine radius degree lambda alpha distance normalise cap threads hubs list project budget learn k "
    "ef links pq signal"
).split()


def wanted(recipe: str, device: Any, world: int, given: Optional[bool]) -> bool:
    """Are spider's scores worked out where the embeddings are? As said; else where batches go to a
    CUDA device, one process trains, and the recipe asks for nothing that `graph` alone knows."""
    name, _, rest = recipe.partition(":")
    asks = {p.partition("=")[0].strip() for p in rest.split(",")}
    if name != "spider" or asks & set(OF_GRAPH):
        if given:
            raise ValueError(f"recipe {recipe!r} leaves no scores to a device")
        return False
    if given is not None:
        return given
    return device is not None and device.type == "cuda" and world == 1
