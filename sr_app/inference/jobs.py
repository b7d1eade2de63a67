"""A picture file to a larger one: what is wanted, and what became of it."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sr_app.errors import ConfigError, PictureError
from sr_app.image.files import write_all
from sr_app.image.formats import require_fit, require_place
from sr_app.image.limits import LIMITS, Limits
from sr_app.image.opening import Album, opened
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
