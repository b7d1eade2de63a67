"""Files to files: what is wanted, one file, a folder of them."""

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sr_app.errors import ConfigError, DataError, PictureError, SrAppError
from sr_app.image.files import write_all
from sr_app.image.formats import require_fit, require_place
from sr_app.image.limits import LIMITS, Limits
from sr_app.image.opening import Album, looks_like_a_picture, opened
from sr_app.image.picture import Banded, Header, Picture
from sr_app.settings import require_within

if TYPE_CHECKING:  # they load MindSpore
    from sr_app.inference.model import Progress
    from sr_app.inference.networks import Networks


@dataclass(frozen=True)
class Wish:
    """How large, how good: what holds for all pictures of a job.

    Args:
        factor: how many times larger, 1 and above; without any of the three the network's own.
        width, height: of the result in pixels; with one of them the other follows, with both the
            result is as large as fits inside.
        quality: 1..100, for JPEG and lossy WebP.
        limits: on what is read.
    """

    factor: float | None = None
    width: int | None = None
    height: int | None = None
    quality: int | None = None
    limits: Limits = LIMITS

    def __post_init__(self) -> None:
        if self.factor is not None and (self.width, self.height) != (None, None):
            raise ConfigError("scale and size: give one of them")
        for name, value, least in (
            ("scale", self.factor, 1),
            ("width", self.width, 1),
            ("height", self.height, 1),
            ("max-pixels", self.limits.max_pixels, 1),
        ):
            if value is not None:
                require_within(name, value, least)

    def factor_of(self, before: Header | Picture, usual: float) -> float:
        """How many times larger that picture is to become; `usual` where nothing is asked for."""
        if self.width is None and self.height is None:
            return self.factor or usual
        wanted = (self.width, before.width), (self.height, before.height)
        return min(new / old for new, old in wanted if new is not None)


@dataclass(frozen=True)
class Job:
    """A picture file, and the file that it becomes."""

    source: Path
    target: Path


@dataclass(frozen=True)
class Outcome:
    """What became of a job.

    Args:
        status: `done`, `skipped` (was there already, or is no picture) or `failed`.
        reason: why it was skipped or failed.
        before, after: (width, height) of the first picture, in the source and in the target.
        pictures: frames or pages.
        network: its name.
    """

    source: Path
    target: Path | None
    status: str
    reason: str = ""
    before: tuple[int, int] | None = None
    after: tuple[int, int] | None = None
    pictures: int = 0
    network: str = ""
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON; what is not known is left out."""
        told = {
            "source": str(self.source),
            "target": None if self.target is None else str(self.target),
            "status": self.status,
            "reason": self.reason,
            "before": self.before,
            "after": self.after,
            "pictures": self.pictures,
            "network": self.network,
            "seconds": round(self.seconds, 3),
        }
        return {key: value for key, value in told.items() if value}


def upscale_picture(picture: Picture, networks: "Networks", wish: Wish) -> Picture:
    """Enlarge a picture in memory."""
    factor = wish.factor_of(picture, networks.usual_factor)
    return networks.reaching(factor).banded(picture, _size(picture, factor)).whole()


def upscale_file(
    job: Job, networks: "Networks", wish: Wish, progress: "Progress | None" = None
) -> Outcome:
    """Enlarge all pictures of a file into another, which is written whole or not at all.

    What stands against writing is found before any work. `progress` is told (tiles done, tiles in
    all). Raises SrAppError.
    """
    begin = time.monotonic()
    with opened(job.source, wish.limits) as album:
        header = album.header
        factor = wish.factor_of(header, networks.usual_factor)
        height, width = _size(header, factor)
        large = replace(header, height=height, width=width)
        require_fit(job.target, large, wish.quality)
        require_place(job.target)
        if job.target.exists() and job.target.samefile(job.source):
            raise PictureError(f"{job.target} is the picture itself; give another name")
        upscaler = networks.reaching(factor)
        pictures = _enlarged(album, networks, wish, progress)
        write_all(job.target, large, pictures, wish.quality)
    return Outcome(
        job.source,
        job.target,
        "done",
        before=(header.width, header.height),
        after=(width, height),
        pictures=header.count,
        network=upscaler.model.name,
        seconds=time.monotonic() - begin,
    )


def upscale_files(
    jobs: Sequence[Job], networks: "Networks", wish: Wish, skip_existing: bool = False
) -> Iterator[Outcome]:
    """Do one job after another; a file that fails is told, and the others go on."""
    for job in jobs:
        if skip_existing and job.target.is_file():
            yield Outcome(job.source, job.target, "skipped", "is there already")
            continue
        try:
            _make_folder(job.target.parent)
            yield upscale_file(job, networks, wish)
        except SrAppError as error:
            yield Outcome(job.source, job.target, "failed", str(error))


def find_jobs(folder: Path, output: Path, ending: str | None) -> tuple[list[Job], list[Outcome]]:
    """A job for each picture below a folder, into a folder of the same shape; and what is no job.

    Pictures are told by their content. Names stay, with the ending that is asked for (by default
    .tif for TIFFs and .png for others); where two would get one name, the whole old name stays in
    front of the new ending. Hidden files are left out; links that lead out of the folder, and
    links to folders, aren't followed. Raises DataError for a folder without pictures, and when a
    result would replace one of the pictures.
    """
    root = folder.resolve()
    sources: list[Path] = []
    others: list[Outcome] = []
    for path in _walk(folder, output.resolve(), others):
        no_job = _no_job(path, root)
        if no_job is None:
            sources.append(path)
        else:
            others.append(Outcome(path, None, *no_job))
    if not sources and all(other.status == "skipped" for other in others):
        raise DataError(f"{folder}: there are no pictures in this folder")
    targets = [output / name for name in _names([s.relative_to(folder) for s in sources], ending)]
    resolved = {source.resolve() for source in sources}
    for source, target in zip(sources, targets, strict=True):
        if target.resolve() in resolved:
            raise DataError(
                f"{target}: the enlarged {source} would replace a picture that is to be enlarged; "
                "give another --output"
            )
    return [Job(*pair) for pair in zip(sources, targets, strict=True)], others


def usual_ending(source: Path) -> str:
    """.tif for a TIFF, which may hold float or pages, and .png for others: all without loss."""
    return ".tif" if source.suffix.lower() in (".tif", ".tiff") else ".png"


def _enlarged(
    album: Album, networks: "Networks", wish: Wish, progress: "Progress | None"
) -> Iterable[Banded]:
    count = album.header.count
    for index, frame in enumerate(album.frames()):
        picture = frame.picture
        factor = wish.factor_of(picture, networks.usual_factor)
        told = None if progress is None else _part(progress, index, count)
        large = networks.reaching(factor).banded(picture, _size(picture, factor), told)
        yield replace(large, duration=frame.duration)


def _size(before: Header | Picture, factor: float) -> tuple[int, int]:
    """Height and width, rounded up as in MATLAB's imresize, but for what floats add to a number."""
    return ceil(before.height * factor - 1e-6), ceil(before.width * factor - 1e-6)


def _part(progress: "Progress", index: int, count: int) -> "Progress":
    """The progress of one of several pictures of a file as part of the whole file's."""
    return lambda done, total: progress(index * total + done, count * total)


def _walk(folder: Path, output: Path, unread: list[Outcome]) -> Iterator[Path]:
    """All files and links below a folder, sorted, without hidden ones and our own results."""

    def tell(error: OSError) -> None:
        reason = f"{error.filename}: this folder can't be read: {error.strerror}"
        unread.append(Outcome(Path(error.filename), None, "failed", reason))

    for place, folders, names in os.walk(folder, onerror=tell):
        here = Path(place)
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name not in links and (here / name).resolve() != output
        )
        for name in sorted([*names, *links]):
            if not name.startswith("."):
                yield here / name


def _no_job(path: Path, root: Path) -> tuple[str, str] | None:
    """Status and reason of what can't be enlarged; None of a picture."""
    if path.is_symlink() and path.is_dir():
        return "skipped", "is a link to a folder"
    if path.is_symlink() and not path.resolve().is_relative_to(root):
        return "skipped", "is a link that leads out of the folder"
    try:
        if looks_like_a_picture(path):
            return None
    except PictureError as error:
        return "failed", str(error)
    return None if path.suffix.lower() in _NAMES else ("skipped", "is no picture")


_NAMES = (
    *(".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff"),
    *(".avif", ".heic", ".heif"),
)
"""Endings that promise a picture: where the content isn't one, the file has failed."""


def _names(sources: list[Path], ending: str | None) -> list[Path]:
    """Relative names of the results, no two the same, also where case doesn't count."""
    endings = [ending or usual_ending(source) for source in sources]
    short = [s.with_name(s.stem + e) for s, e in zip(sources, endings, strict=True)]
    long = [s.with_name(s.name + e) for s, e in zip(sources, endings, strict=True)]
    taken = Counter(_folded(name) for name in short)
    names = [
        brief if taken[_folded(brief)] == 1 else full
        for brief, full in zip(short, long, strict=True)
    ]
    twice = [name for name, count in Counter(map(_folded, names)).items() if count > 1]
    if twice:
        raise DataError(f"two pictures would be written to {twice[0]}; rename one of them")
    return names


def _folded(path: Path) -> str:
    return str(path).casefold()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise PictureError(f"{folder}: this folder can't be made: {error}") from error
