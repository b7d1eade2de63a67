"""A folder of pictures to a folder of larger ones: which, to what names, and one after another."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sr_app.errors import DataError, PictureError, SrAppError
from sr_app.image.opening import looks_like_a_picture
from sr_app.inference.jobs import Job, Outcome, Wish, upscale_file

if TYPE_CHECKING:  # it loads MindSpore
    from sr_app.inference.networks import Networks

_NAMES = (
    *(".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff"),
    *(".avif", ".heic", ".heif"),
)
"""Endings that promise a picture: where the content isn't one, the file has failed."""


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


def upscale_in_folder(
    job: Job, networks: "Networks", wish: Wish, skip_existing: bool = False
) -> Outcome:
    """Do one of many jobs: a file that fails is told, so that the others go on."""
    if skip_existing and job.target.is_file():
        return Outcome(job.source, job.target, "skipped", "is there already")
    try:
        _make_folder(job.target.parent)
        return upscale_file(job, networks, wish)
    except SrAppError as error:
        return Outcome(job.source, job.target, "failed", str(error))


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
    if path.exists() and not path.is_file():
        return "skipped", "is a pipe or a device"
    try:
        if looks_like_a_picture(path):
            return None
    except PictureError as error:
        return "failed", str(error)
    return None if path.suffix.lower() in _NAMES else ("skipped", "is no picture")


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
