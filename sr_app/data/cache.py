"""Decoded pixels of a set in one memory-mapped file, shared by all processes of a machine.

Training reads each picture thousands of times; decoding a PNG of DIV2K takes about 0.1 s, cutting
a patch out of the mapped file about 0.1 ms. Two files make a cache, in the program's cache folder:

    KEY.pixels   LR then HR of each picture, uint8, row by row
    KEY.json     the LR sizes, a checksum; written last, so that its presence means completeness

KEY is a digest of the bytes of all picture files and the scale, so a set that is moved, copied or
touched keeps its cache, and one that changes gets a new one. Reading all bytes at each start
would cost seconds to minutes, so KEY is remembered under a digest of the files' paths, sizes and
times (`STAMP.key`). Everything in the folder can be deleted at any time.

Processes that want the same cache at once wait for the first of them, which holds a lock (POSIX's
flock, released by the system if that process dies).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import logging
import os
import re
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from sr_app import threads
from sr_app.atomic import replacing
from sr_app.data import folders
from sr_app.data.degradation import Pixels, read_pair
from sr_app.data.folders import PictureSet, Progress
from sr_app.errors import DataError, PictureError
from sr_app.image.files import header_size
from sr_app.places import cache_folder

FORMAT = 1  # raise it when the layout changes, or what decoding or degradation gives
LOCK_SECONDS = 3600.0  # DIV2K takes minutes to decode on two cores

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PixelCache:
    """The pixels of a set: `lows[i]` uint8 (h, w, 3), `highs[i]` uint8 (h * scale, w * scale, 3).

    Read-only views of the mapped file; nothing is in memory until it is touched. `key` is a digest
    of all files' bytes and the scale: caches of the same pixels have the same.
    """

    name: str
    scale: int
    names: tuple[str, ...]
    lows: tuple[Pixels, ...]
    highs: tuple[Pixels, ...]
    key: str

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def fingerprints(self) -> list[list[str | int]]:
        """Each picture's name and a checksum of some of its pixels: to tell which ones changed."""
        return [
            [name, _checksum(high.reshape(-1), blocks=2)]
            for name, high in zip(self.names, self.highs, strict=True)
        ]

    def low(self, index: int) -> Pixels:
        """The LR picture, (h, w, 3)."""
        return self.lows[index]

    def high(self, index: int) -> Pixels:
        """The HR picture, (h * scale, w * scale, 3)."""
        return self.highs[index]


def open_cache(pictures: PictureSet, scale: int, progress: Progress | None = None) -> PixelCache:
    """The decoded pixels of a set; decodes all its files if that has not been done yet.

    `progress` is called only while decoding. Raises PictureError for a file that can't be read or
    decoded, DataError for a pair that doesn't fit, a file that changes meanwhile, a folder that
    can't be written, a full disk (then nothing is left behind), or another process that holds the
    lock for an hour.
    """
    folder = cache_folder()
    stamps = _stamps(pictures)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        key = _content_key(pictures, scale, folder, stamps)
        base = folder / key
        opened = _open(base, pictures, scale)
        if opened is None:
            with _locked(base.with_suffix(".lock")):
                opened = _open(base, pictures, scale)  # made by another process meanwhile?
                if opened is None:
                    _build(base, pictures, scale, stamps, progress)
                    opened = _open(base, pictures, scale)
    except OSError as error:
        raise _unusable(pictures, folder, error) from error
    if opened is None:
        raise DataError(
            f"{base}.pixels was damaged while it was written: check that disk, or set SR_CACHE "
            "to a folder on another one"
        )
    return opened


def open_set(
    spec: str,
    scale: int,
    skip: bool,
    say: Callable[[str], None],
    progress: Progress | None = None,
) -> tuple[PictureSet, PixelCache]:
    """The training pictures of the set that `spec` names, and their pixels.

    Raises what `folders.find` and `open_cache` raise. With `skip`, pictures that can't be read or
    don't fit are left out instead, and `say` is told which.
    """
    try:
        pictures = folders.find(spec, scale)
        return pictures, open_cache(pictures, scale, progress)
    except (PictureError, DataError):
        if not skip:
            raise
        pictures, problems = folders.find_readable(spec, scale)
        if not problems:
            raise  # it was not the pictures
        say(f"guard.pictures: leaving out {len(problems)} pictures: {'; '.join(problems)}")
        return pictures, open_cache(pictures, scale, progress)


# --- the key ------------------------------------------------------------------------------------


def content_key(pictures: PictureSet, scale: int) -> str:
    """A digest of all files' bytes and the scale: that of their cache, where there is one.

    Raises DataError for a cache folder that can't be written or a file that changes meanwhile,
    PictureError for one that can't be read.
    """
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _content_key(pictures, scale, folder, _stamps(pictures))
    except OSError as error:
        raise _unusable(pictures, folder, error) from error


def _unusable(pictures: PictureSet, folder: Path, error: OSError) -> DataError:
    return DataError(
        f"the pixel cache of {pictures.name} can't be made in {folder}: {error}. Mend that, or "
        "set SR_CACHE to another folder."
    )


def _content_key(pictures: PictureSet, scale: int, folder: Path, stamps: list[str]) -> str:
    """The cache's name: from the files' bytes, or remembered from the last time they were read."""
    remembered = folder / f"{_digest([scale, *stamps])}.key"
    if remembered.is_file():
        key = remembered.read_text("ascii", errors="replace")
        if re.fullmatch("[0-9a-f]{32}", key):
            return key
    with ThreadPoolExecutor(threads.count()) as pool:
        key = _digest([scale, *pool.map(_file_digest, _files(pictures))])
    _require_unchanged(pictures, stamps)
    with replacing(remembered) as temporary:
        temporary.write_text(key)
    return key


def _files(pictures: PictureSet) -> list[Path | None]:
    return [file for pair in pictures.pairs for file in pair]


def _stamps(pictures: PictureSet) -> list[str]:
    return [_stamp(file) for file in _files(pictures)]


def _require_unchanged(pictures: PictureSet, stamps: list[str]) -> None:
    """Raise DataError if a file is not what it was, so that no key gets another set's pixels."""
    for file, before, now in zip(_files(pictures), stamps, _stamps(pictures), strict=True):
        if now != before:
            raise DataError(
                f"{file} changed while the set {pictures.name} was read: start again when nothing "
                "writes to it any more"
            )


@contextlib.contextmanager
def _reading(file: Path) -> Iterator[None]:
    """Tell an OSError as the picture's, lest it be taken for one of the cache's folder."""
    try:
        yield
    except OSError as error:
        raise PictureError(f"{file} can't be read: {error.strerror or error}") from error


def _stamp(file: Path | None) -> str:
    if file is None:
        return "made from HR"
    with _reading(file):
        status = file.stat()
    return f"{file.absolute()} {status.st_size} {status.st_mtime_ns}"


def _file_digest(file: Path | None) -> str:
    digest = hashlib.blake2b(digest_size=16)
    if file is not None:
        with _reading(file), file.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()


def _digest(parts: Iterable[object]) -> str:
    text = "\n".join(map(str, [FORMAT, *parts]))
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


# --- reading ------------------------------------------------------------------------------------


def _open(base: Path, pictures: PictureSet, scale: int) -> PixelCache | None:
    """The cache, or None if it is not there or (which is told) damaged."""
    pixels_file, index_file = base.with_suffix(".pixels"), base.with_suffix(".json")
    if not index_file.exists():
        return None
    try:
        index = json.loads(index_file.read_text())
        sizes = [(int(height), int(width)) for height, width in index["low_sizes"]]
        pixels = np.memmap(pixels_file, np.uint8, mode="r").view(np.ndarray)
        expected = sum(3 * h * w * (1 + scale**2) for h, w in sizes)
        if pixels.size != expected:
            raise ValueError(f"{pixels.size} bytes where there should be {expected}")
        if _checksum(pixels) != index["checksum"]:
            raise ValueError("the checksum of its pixels is wrong")
    except (OSError, ValueError, KeyError, TypeError) as error:
        _log.warning("the pixel cache %s is damaged (%s): it is made anew", pixels_file, error)
        return None
    lows, highs = _views(pixels, sizes, scale)
    names = tuple(file.name for file in pictures.highs)
    return PixelCache(pictures.name, scale, names, lows, highs, base.name)


def _views(
    pixels: Pixels, sizes: list[tuple[int, int]], scale: int
) -> tuple[tuple[Pixels, ...], tuple[Pixels, ...]]:
    """Cut the mapped bytes into LR and HR pictures."""
    lows, highs, start = [], [], 0
    for height, width in sizes:
        middle = start + 3 * height * width
        end = middle + 3 * height * width * scale**2
        lows.append(pixels[start:middle].reshape(height, width, 3))
        highs.append(pixels[middle:end].reshape(height * scale, width * scale, 3))
        start = end
    return tuple(lows), tuple(highs)


def _checksum(pixels: Pixels, blocks: int = 1024) -> int:
    """CRC-32 over 1024 blocks of 4 KB spread over the file (all of a file up to 4 MB).

    All 8 GB of DIV2K would take too long at each start; this finds what a crash or a bad disk
    leaves: parts that are missing or zero.
    """
    block = 4096
    starts = np.linspace(0, max(pixels.size - block, 0), blocks).astype(np.int64)
    crc = 0
    for start in np.unique(starts):
        crc = zlib.crc32(pixels[start : start + block].data, crc)
    return crc


# --- writing ------------------------------------------------------------------------------------


def _build(
    base: Path, pictures: PictureSet, scale: int, stamps: list[str], progress: Progress | None
) -> None:
    """Decode all files into KEY.pixels, then write KEY.json."""
    for stale in base.parent.glob(f".{base.name}.*.part*"):  # of a process that was killed:
        stale.unlink(missing_ok=True)  # we hold the lock, so nobody is writing it
    needed = _bytes_needed(pictures, scale)
    free = _free_bytes(base.parent)
    if free < needed:
        raise _disk_full(pictures, base.parent, needed, free)
    sizes = []
    pixels_file = base.with_suffix(".pixels")
    try:
        with replacing(pixels_file) as temporary, temporary.open("xb") as file:
            for done, (low, high) in enumerate(_decoded(pictures, scale), start=1):
                file.write(low.tobytes())
                file.write(high.tobytes())
                sizes.append(low.shape[:2])
                if progress is not None:
                    progress(done, len(pictures))
            _require_unchanged(pictures, stamps)
        checksum = _checksum(np.memmap(pixels_file, np.uint8, mode="r"))
        index = {"set": pictures.name, "low_sizes": sizes, "checksum": checksum}
        with replacing(base.with_suffix(".json")) as temporary:
            temporary.write_text(json.dumps(index))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise _disk_full(pictures, base.parent, needed, _free_bytes(base.parent)) from error


def _decoded(pictures: PictureSet, scale: int) -> Iterator[tuple[Pixels, Pixels]]:
    """The pairs in order, decoded by threads that run at most a few pictures ahead."""
    with ThreadPoolExecutor(threads.count()) as pool:
        ahead: deque[Future[tuple[Pixels, Pixels]]] = deque()
        try:
            for high, low in pictures.pairs:
                ahead.append(pool.submit(partial(read_pair, high, low, scale)))
                if len(ahead) > 2 * threads.count():
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()


def _bytes_needed(pictures: PictureSet, scale: int) -> int:
    sizes = [header_size(high) for high in pictures.highs]
    return sum(3 * (h // scale) * (w // scale) * (1 + scale**2) for h, w in sizes)


def _free_bytes(folder: Path) -> int:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def _disk_full(pictures: PictureSet, folder: Path, needed: int, free: int) -> DataError:
    return DataError(
        f"the pixel cache of {pictures.name} needs {needed} bytes in {folder}, where {free} are "
        "free. Free some, or set SR_CACHE to a folder on another disk."
    )


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock among processes; DataError after LOCK_SECONDS of waiting."""
    deadline = time.monotonic() + LOCK_SECONDS
    with path.open("wb") as file:
        waiting = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise DataError(
                        f"another process has held {path} for {LOCK_SECONDS:.0f} s to build the "
                        "pixel cache: see whether it hangs, stop it, and start again"
                    ) from None
                if not waiting:
                    _log.info("waiting for another process that builds %s", path.stem)
                waiting = True
                time.sleep(0.1)
        yield
