"""The files of a set, found by name or path, and what is wrong with them.

`find` looks at names and, for pairs, at headers; `check` decodes every file. How sets are named
and laid out is in `layouts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sr_app import threads
from sr_app.data import layouts
from sr_app.data.layouts import FilePair, Layout, Split
from sr_app.errors import DataError, PictureError
from sr_app.image.files import header_size, read_rgb

Size = tuple[int, int]
"""Height and width in pixels."""
Progress = Callable[[int, int], None]
"""Called with (done, total) after each picture."""


@dataclass(frozen=True)
class PictureSet:
    """The files of one set, or of several joined, by natural name within each.

    `lows` is None where there are no LR files, so that LR is made from HR; in joined sets that
    differ in this, only the entries of those without are None.
    """

    name: str
    highs: tuple[Path, ...]
    lows: tuple[Path | None, ...] | None

    def __len__(self) -> int:
        return len(self.highs)

    @property
    def pairs(self) -> tuple[FilePair, ...]:
        """(HR file, LR file or None) of each picture."""
        return tuple(zip(self.highs, self.lows or (None,) * len(self.highs), strict=True))


def find(spec: str, scale: int, split: Split = "train", root: Path = Path("data")) -> PictureSet:
    """The files of the set that `spec` names.

    Raises DataError: unknown name, no pictures, a split or a scale that is missing, an HR picture
    without its LR picture, a broken link, a pair whose sizes don't fit. Raises PictureError for a
    header of such a pair that can't be read.
    """
    pictures = _collect(layouts.parts(spec, root), scale, split)
    for high, low in pictures.pairs:
        for file in (high, low):
            if file is not None and not layouts.is_file(file):
                raise DataError(f"{file} is a broken link or no file: mend or remove it")
        if low is not None:
            require_fit(high, header_size(high), low, header_size(low), scale)
    return pictures


def find_readable(
    spec: str, scale: int, split: Split = "train", root: Path = Path("data")
) -> tuple[PictureSet, tuple[str, ...]]:
    """The pictures of a set that can be read, and what is wrong with the others; decodes all.

    Raises DataError as `find` does for the set itself, and where nothing is left.
    """
    pictures = _collect(layouts.parts(spec, root), scale, split)
    with ThreadPoolExecutor(threads.count()) as pool:
        problems = list(pool.map(lambda pair: _examine_pair(pair, scale)[1], pictures.pairs))
    kept = [pair for pair, bad in zip(pictures.pairs, problems, strict=True) if bad is None]
    told = tuple(bad for bad in problems if bad is not None)
    if not kept:
        raise DataError(f"none of the {len(pictures)} pictures of {spec} can be read: {told[0]}")
    lows = tuple(low for _, low in kept)
    highs = tuple(high for high, _ in kept)
    return PictureSet(pictures.name, highs, lows if any(lows) else None), told


def require_fit(high: Path, high_size: Size, low: Path | None, low_size: Size, scale: int) -> None:
    """Raise DataError unless LR is HR / scale, rounded down, in both dimensions.

    `low` is None where LR is made from HR: then only an empty LR can be wrong.
    """
    if min(high_size) < scale:
        raise DataError(
            f"{high} is {_shown(high_size)} pixels: too small for scale {scale}. Remove it."
        )
    wanted = (high_size[0] // scale, high_size[1] // scale)
    if low is not None and low_size != wanted:
        raise DataError(
            f"{high} is {_shown(high_size)} pixels, so its LR picture at scale {scale} must be "
            f"{_shown(wanted)}, but {low} is {_shown(low_size)} (width x height). Put the right "
            "file there, or move the LR folder away to have LR made from HR."
        )


def _shown(size: Size) -> str:
    return f"{size[1]} x {size[0]}"


def _collect(parts: Sequence[Layout | None], scale: int, split: Split) -> PictureSet:
    """The joined set, without a look into the files."""
    pairs = [pair for part in parts for pair in layouts.pairs(part, scale, split)]
    lows = tuple(low for _, low in pairs)
    return PictureSet(
        name="+".join(layouts.SAMPLE if part is None else part.title for part in parts),
        highs=tuple(high for high, _ in pairs),
        lows=lows if any(lows) else None,
    )


# --- the check ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class SplitReport:
    """What `check` found in one split; `title` is the split, or both for a set without one."""

    title: str
    pictures: PictureSet | None
    sizes: tuple[Size, ...]
    problems: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """The split's part of the report."""
        if self.pictures is not None:
            folders = sorted({str(file.parent) for file in self.pictures.highs})
            lows = {str(low.parent) for _, low in self.pictures.pairs if low is not None}
            with_low = sum(low is not None for _, low in self.pictures.pairs)
            yield f"{self.title}: {len(self.pictures)} HR pictures in {', '.join(folders)}"
            if with_low:
                yield f"  LR: {with_low} pairs in {', '.join(sorted(lows))}"
            if with_low < len(self.pictures):
                yield f"  LR: made from HR for {len(self.pictures) - with_low} pictures"
        if self.sizes:
            by_area = sorted(self.sizes, key=lambda size: size[0] * size[1])
            smallest, largest = _shown(by_area[0]), _shown(by_area[-1])
            yield f"  HR sizes (width x height): smallest {smallest}, largest {largest}"
        for problem in self.problems:
            yield f"  PROBLEM in {self.title}: {problem}"


@dataclass(frozen=True)
class Report:
    """What `check` found: `str()` is the text for people, `ok` whether it can be trained on."""

    spec: str
    scale: int
    splits: tuple[SplitReport, ...]

    @property
    def ok(self) -> bool:
        return not any(split.problems for split in self.splits)

    def __str__(self) -> str:
        count = sum(len(split.problems) for split in self.splits)
        verdict = "can be trained on" if self.ok else f"can't be trained on: {count} problem(s)"
        lines = [line for split in self.splits for line in split.lines()]
        return "\n".join([*lines, f"{self.spec} at scale {self.scale} {verdict}"])


def check(
    spec: str, scale: int, root: Path = Path("data"), progress: Progress | None = None
) -> Report:
    """Look for everything that training on `spec` needs, decode every file, and tell.

    What is wrong with the set is in the report, not raised; DataError only if there is no such
    set at all. `progress` starts anew with each split (training, then validation).
    """
    parts = layouts.parts(spec, root)
    titles: dict[PictureSet | str, str] = {}  # a set without a split gives the same twice
    splits: tuple[tuple[Split, str], ...] = (("train", "training"), ("valid", "validation"))
    for split, title in splits:
        try:
            outcome: PictureSet | str = _collect(parts, scale, split)
        except DataError as error:
            outcome = str(error)
        titles[outcome] = f"{titles[outcome]} and {title}" if outcome in titles else title
    reports = [
        SplitReport(title, None, (), (outcome,))
        if isinstance(outcome, str)
        else _examine(title, outcome, scale, progress)
        for outcome, title in titles.items()
    ]
    return Report(spec, scale, tuple(reports))


def _examine(
    title: str, pictures: PictureSet, scale: int, progress: Progress | None
) -> SplitReport:
    """Decode each file of a set."""
    sizes: list[Size] = []
    problems: list[str] = []
    with ThreadPoolExecutor(threads.count()) as pool:
        results = pool.map(partial(_examine_pair, scale=scale), pictures.pairs)
        for done, (size, problem) in enumerate(results, start=1):
            sizes.extend([size] if size else [])
            problems.extend([problem] if problem else [])
            if progress is not None:
                progress(done, len(pictures))
    return SplitReport(title, pictures, tuple(sizes), tuple(problems))


def _examine_pair(pair: FilePair, scale: int) -> tuple[Size | None, str | None]:
    """The decoded HR size and what is wrong, each None if there is none."""
    high, low = pair
    size: Size | None = None
    try:
        rows, columns = read_rgb(high).shape[:2]
        size = (rows, columns)
        low_size = size if low is None else read_rgb(low).shape[:2]
        require_fit(high, size, low, (low_size[0], low_size[1]), scale)
    except (PictureError, DataError) as error:
        return size, str(error)
    return size, None
