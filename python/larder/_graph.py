"""The scores of `spider` on a device: embeddings stay there, neighbours are counted by matrix products,
all of them. What goes to larder is a score a sample and a few hubs (signal `given`)."""

from __future__ import annotations

from typing import Any, Dict, Optional

from . import _torch

STEP_FIRST, STEP_LEAST, STEP_MOST = 0.05, 5e-4, 0.1  # as the signal `graph` steers its radius
PAIRS = 4096
CHUNK = 1 << 14  # rows of the table at a time
CLASSES_MAX = 1 << 20  # labels from here on, and those below zero, are one class
HELD, LEAST, MOST = 1024, 16, 64  # an even sample of the ids, and how many a batch counts of it
TENSORS = ("x", "label", "named", "radius", "step", "turn", "next")


def hash_ranks(n: int) -> Any:
    """The place of each id by its hash, the one of the signal `graph`."""
    import numpy

    with numpy.errstate(over="ignore"):
        x = numpy.arange(n, dtype="uint64") + numpy.uint64(0x9E3779B97F4A7C15)
        for _ in range(2):
            x = (x ^ (x >> numpy.uint64(32))) * numpy.uint64(0xD6E8FEB86659FD93)
        x ^= x >> numpy.uint64(32)
    rank = numpy.empty(n, "int64")
    rank[numpy.argsort(x)] = numpy.arange(n)
    return _torch.module().from_numpy(rank)


class Graph:
    """A table of embeddings and what the signal `graph` works out of it, with the same formulas
    (docs/guide/recipes.md), in tensors wherever the embeddings are. Nothing here waits for the device but the
    first batch, of which the radius is guessed."""

    def __init__(self, n: int, degree: float = 150, cap: float = 500, hubs: int = 4,
                 most: int = 500) -> None:
        self.n, self.degree, self.cap, self.hubs, self.most = n, degree, cap, hubs, most
        self.x: Any = None
        self.label: Any = None  # -2: never seen
        self.radius: Any = None
        self.step: Any = None
        self.turn: Any = None
        self.rank: Any = None  # of each id, by the hash of `graph`: the lowest seen are the sample
        self.next: Any = None  # who of it is counted next
        self.named: Any = None  # offered as a hub in this epoch
        self.named_epoch = 0

    def _open(self, emb: Any) -> Any:
        """All that is kept, and the table for embeddings like these."""
        torch = _torch.module()
        place = dict(device=emb.device)
        self.label = torch.full((self.n,), -2, dtype=torch.int64, **place)
        self.named = torch.zeros(self.n, dtype=torch.bool, **place)
        self.step = torch.tensor(STEP_FIRST, dtype=torch.float64, **place)
        self.turn = torch.tensor(0, dtype=torch.float64, **place)
        self.rank = hash_ranks(self.n).to(emb.device)
        self.next = torch.tensor(0, dtype=torch.int64, **place)
        return torch.zeros(self.n, emb.shape[1], dtype=torch.float32, **place)

    def _follow(self, device: Any) -> None:
        """A loaded state goes where the embeddings are."""
        for name in TENSORS + ("rank",):
            value = getattr(self, name)
            if value is not None and value.device != device:
                setattr(self, name, value.to(device))

    def score(self, served: Any, labels: Any, emb: Any, epoch: int = 0) -> Any:
        """Enters a batch and answers with what signal `given` takes, on the same device."""
        torch = _torch.module()
        emb = emb.detach().reshape(emb.shape[0], -1)
        if self.x is None:
            self.x = self._open(emb)
        elif emb.shape[1] != self.x.shape[1]:
            raise ValueError(
                f"embeddings had {self.x.shape[1]} dimensions, now {emb.shape[1]}"
            )
        self._follow(emb.device)
        ids, at, own, whose = self._rows(served, labels, emb.device)
        x, own, fine = self._enter(ids, own, emb[at].float())
        rows = (self.label != -2).sum().double()
        want = (rows / 8).clamp(max=self.degree)
        if self.radius is None:
            known = x[fine]
            if len(known) < 2:  # one sample says nothing about distances
                return self._answer(whose, None, None, None)
            self.radius = self._guess(known, float(want / rows))
        probe, asked = self._probe(len(served))
        same, other = self._count(
            torch.cat([x, self.x[probe]]), torch.cat([ids, probe]), torch.cat([own, self.label[probe]])
        )
        degrees = (same + other)[len(ids) :]
        same, other = same[: len(ids)], other[: len(ids)]
        scale = (self.cap / (same + other).clamp(min=1)).clamp(max=1)
        score = torch.log(
            1 / (same * scale).clamp(min=1) + other * scale / self.cap + 1
        ).float()
        score = torch.where(fine, score, torch.full_like(score, float("nan")))
        hubs = self._hubs(x, ids, own, torch.where(fine, same, torch.zeros_like(same)), epoch)
        self._steer(degrees, asked, want)
        return self._answer(whose, score, *hubs)

    def _rows(self, served: Any, labels: Any, device: Any) -> Any:
        """Ids in order, the row of each, and its label; and of each row, which of these it is. Of an id
        that comes twice the last row counts."""
        import numpy

        torch = _torch.module()
        unique, first, whose = numpy.unique(served[::-1], return_index=True, return_inverse=True)
        row = len(served) - 1 - first
        label = labels[row].astype("int64")
        label[(label < 0) | (label >= CLASSES_MAX)] = -1
        return tuple(
            torch.from_numpy(a).to(device, non_blocking=True)
            for a in (unique.astype("int64"), row.astype("int64"), label, whose[::-1].astype("int64"))
        )

    def _enter(self, ids: Any, own: Any, x: Any) -> Any:
        """Rows at unit length into the table; those that are not finite are left out. The class of
        a sample is the label it first came with."""
        torch = _torch.module()
        square = x.double().square().sum(1)
        fine = square < 1e30
        scale = torch.where(square > 0, square.rsqrt(), torch.ones_like(square)).float()
        x = torch.where(fine[:, None], x * scale[:, None], torch.zeros_like(x))
        self.x[ids] = torch.where(fine[:, None], x, self.x[ids])
        before = self.label[ids]
        own = torch.where(before == -2, own, before)
        self.label[ids] = torch.where(fine, own, before)
        return x, own, fine

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

    def _hubs(self, x: Any, ids: Any, own: Any, same: Any, epoch: int) -> Any:
        """The rows with most neighbours of their class, the lower id first among equals; and those
        neighbours, nearest first. None is offered twice in an epoch, none without neighbours (its
        count is 0 then)."""
        torch = _torch.module()
        if epoch != self.named_epoch:
            self.named.zero_()
        self.named_epoch = epoch
        same = torch.where(self.named[ids], torch.zeros_like(same), same)
        k = min(self.hubs, len(ids))
        rank = same * len(ids) - torch.arange(len(ids), device=x.device, dtype=torch.float64)
        best = rank.topk(k).indices
        fits = same[best] > 0
        self.named[ids[best]] |= fits
        d = torch.empty(k, self.n, device=x.device)
        for lo in range(0, self.n, CHUNK):
            hi = min(lo + CHUNK, self.n)
            far, near, label = self._near(x[best], ids[best], lo, hi)
            near &= (label[None, :] == own[best][:, None]) & fits[:, None]
            d[:, lo:hi] = torch.where(near, far, torch.full_like(far, float("inf")))
        most = min(self.most, self.n)
        nearest = d.topk(most, largest=False)
        return ids[best], nearest.indices, torch.isfinite(nearest.values).sum(1)

    def _probe(self, reported: int) -> Any:
        """A few of an even sample of all ids seen: batches are none, as they are drawn by score. Ids, and
        which of them count (there may be fewer)."""
        torch = _torch.module()
        seen = torch.where(self.label != -2, self.rank, torch.full_like(self.rank, self.n))
        low = seen.topk(min(HELD, self.n), largest=False)
        held = (low.values < self.n).sum()
        few = torch.arange(min(max(reported // 8, LEAST), MOST), device=held.device)
        ids = low.indices[(self.next + few) % held.clamp(min=1)]
        asked = few < held
        self.next = (self.next + asked.sum()) % held.clamp(min=1)
        return ids, asked

    def _steer(self, totals: Any, asked: Any, want: Any) -> None:
        torch = _torch.module()
        below, above = ((asked & (t > 0)).sum() for t in (want - totals, totals - want))
        turn = (below - above).sign().double()
        again = (self.step * 1.2).clamp(max=STEP_MOST)
        back = torch.where(self.turn != 0, (self.step / 2).clamp(min=STEP_LEAST), self.step)
        step = torch.where(turn == self.turn, again, back)
        moved = turn != 0
        self.step = torch.where(moved, step, self.step)
        self.radius = (self.radius * torch.exp(turn * self.step)).clamp(1e-6, 1e18)
        self.turn = torch.where(moved, turn, self.turn)

    def _answer(self, whose: Any, score: Any, keys: Any, lists: Any, counts: Any = None) -> Any:
        """Scores in the report's own order, and hubs as words that pass for floats."""
        torch = _torch.module()
        n, device = len(whose), whose.device
        if score is None:
            return torch.full((n, 1), float("nan"), device=device)
        column = score[whose]
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
        state = {k: getattr(self, k) for k in TENSORS}
        state = {k: None if v is None else v.detach().cpu().clone() for k, v in state.items()}
        return dict(state, named_epoch=self.named_epoch)

    def load_state_dict(self, state: Optional[Dict[str, Any]]) -> None:
        if state is None:
            self.x = self.radius = None
            return
        for k in TENSORS:
            value = state.get(k)
            setattr(self, k, None if value is None else value.clone())
        self.named_epoch = int(state.get("named_epoch", 0))
        if self.named is None:  # saved before hubs were offered once an epoch
            self.named = _torch.module().zeros(self.n, dtype=_torch.module().bool)
        self.rank = hash_ranks(self.n)
        if self.next is None:  # saved before the radius went by an even sample
            self.next = _torch.module().tensor(0)


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
