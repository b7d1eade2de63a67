"""Whole pictures of a set, for evaluation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sr_app.data.degradation import Pixels, read_pair
from sr_app.data.folders import PictureSet, find
from sr_app.data.layouts import has_split
from sr_app.errors import DataError

# The known sets and the protocol that their published scores use; a further set is one line here.
PROTOCOLS = {
    "Set5": "benchmark",
    "Set14": "benchmark",
    "B100": "benchmark",
    "Urban100": "benchmark",
    "Manga109": "benchmark",
    "DIV2K": "div2k",
}


@dataclass(frozen=True)
class Pair:
    """One picture: `low` uint8 (h, w, 3) and `high` uint8 (h * scale, w * scale, 3).

    `name` is one that no other picture of the set has, and that can be part of a file's name.
    """

    name: str
    low: Pixels
    high: Pixels


@dataclass(frozen=True)
class BenchmarkSet:
    """A set's pairs, each decoded when it is asked for; `protocol` is how it is scored."""

    name: str
    scale: int
    protocol: str
    pictures: PictureSet
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> Pair:
        """Decode one pair; raises PictureError or DataError as `read_pair` does."""
        high, low = self.pictures.pairs[index]
        return Pair(self.names[index], *read_pair(high, low, self.scale))

    def __iter__(self) -> Iterator[Pair]:
        return (self[index] for index in range(len(self)))


def load(
    spec: str, scale: int, limit: int | None = None, root: Path = Path("data")
) -> BenchmarkSet:
    """The set that `spec` names (see `folders`), its validation split if it has one.

    `limit` keeps only the first pictures by natural name. Raises DataError as `find` does, and
    for a limit that leaves no picture and for a picture that is given twice.
    """
    if limit is not None and limit < 1:
        raise DataError(f"limit {limit} leaves no picture of {spec} to score: give 1 or more")
    return _benchmark(find(spec, scale, "valid", root), scale, limit)


def held_out(
    spec: str, training: PictureSet, scale: int, limit: int, root: Path = Path("data")
) -> BenchmarkSet | None:
    """The first pictures of the set's validation split that are not trained on; None without any.

    Raises DataError as `find` does: a layout that has a validation folder must have it filled.
    """
    seen = set(training.highs)
    pictures = find(spec, scale, "valid", root)
    kept = [pair for pair in dict.fromkeys(pictures.pairs) if pair[0] not in seen]
    if not kept:
        return None
    highs, lows = zip(*kept, strict=True)
    return _benchmark(PictureSet(pictures.name, highs, lows), scale, limit)


def available(root: Path = Path("data")) -> tuple[str, ...]:
    """The known sets that are there, in the order in which papers list them."""
    return tuple(name for name in PROTOCOLS if has_split(name, "valid", root))


def _benchmark(pictures: PictureSet, scale: int, limit: int | None) -> BenchmarkSet:
    first = slice(limit)
    lows = None if pictures.lows is None else pictures.lows[first]
    kept = PictureSet(pictures.name, pictures.highs[first], lows)
    default = "div2k" if kept.name.startswith("DIV2K") else "benchmark"
    protocol = PROTOCOLS.get(kept.name, default)
    return BenchmarkSet(kept.name, scale, protocol, kept, _names(pictures)[first])


def _names(pictures: PictureSet) -> tuple[str, ...]:
    """Each picture's stem, or as much of its path, joined by _, as tells it from all others."""
    paths = [(*high.parent.resolve().parts[1:], high.name) for high in pictures.highs]
    names = [high.stem for high in pictures.highs]
    depth = 0
    while clashing := {name for name, count in Counter(names).items() if count > 1}:
        if depth == max(map(len, paths)):
            twice = pictures.highs[[name in clashing for name in names].index(True)]
            raise DataError(
                f"the same picture is given twice in {pictures.name}: {twice}. Name each set once."
            )
        depth += 1
        names = [
            "_".join(path[-depth:]) if name in clashing else name
            for name, path in zip(names, paths, strict=True)
        ]
    return tuple(names)
