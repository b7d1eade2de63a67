"""Batches of patches: a pure function of (seed, step).

So a run that is resumed at step n sees what the uninterrupted run would have seen, and nothing
about the loader has to be saved. Several ranks cut one batch into parts: together they see what one
rank alone would see, so that a run is the same on any number of devices.

Each picture is equally likely, as in EDSR's recipe, whatever its size: a few large pictures don't
crowd out many small ones. Within a picture every position is equally likely, and so is each of
the eight ways to flip and turn it.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sr_app.data.cache import PixelCache
from sr_app.data.degradation import Pixels
from sr_app.errors import DataError

Batch = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]
"""LR (n, 3, patch, patch) and HR (n, 3, patch * scale, patch * scale), float32, 0..255."""

QUEUED = 4  # batches made ahead; one takes about a millisecond, so a few even out all hiccups
WAIT_SECONDS = 300.0  # for one batch: only a disk that no longer answers takes so long


class MakeBatch(Protocol):
    """`batch` with all but the step given."""

    def __call__(self, *, step: int) -> Batch: ...


Made = queue.Queue[Batch | Exception]


@dataclass(frozen=True)
class Crop:
    """Where a patch comes from: picture, top left corner in LR pixels, and one of 8 turns."""

    picture: int
    top: int
    left: int
    turn: int


def batch(
    cache: PixelCache,
    *,
    seed: int,
    step: int,
    batch_size: int,
    patch: int,
    part: int = 0,
    parts: int = 1,
) -> Batch:
    """The patches of one step, or one of `parts` equal parts; `patch` is the LR side in pixels.

    `seed`, `step` and `part` are not negative, `parts` divides `batch_size`. Raises DataError if a
    chosen picture is smaller than the patch (call `require_patch` once beforehand).
    """
    chosen = crops(cache, seed=seed, step=step, batch_size=batch_size, patch=patch)
    size = batch_size // parts
    chosen = chosen[part * size : (part + 1) * size]
    side = patch * cache.scale
    low = np.empty((size, 3, patch, patch), np.float32)
    high = np.empty((size, 3, side, side), np.float32)
    for i, crop in enumerate(chosen):
        low[i] = _cut(cache.low(crop.picture), crop, patch, 1)
        high[i] = _cut(cache.high(crop.picture), crop, patch, cache.scale)
    return low, high


def crops(
    cache: PixelCache, *, seed: int, step: int, batch_size: int, patch: int
) -> tuple[Crop, ...]:
    """What `batch` cuts out for the same arguments; tells which files a bad batch came from."""
    source = np.random.SeedSequence(seed, spawn_key=(step, 0))
    random = np.random.Generator(np.random.PCG64(source))
    pictures = random.integers(len(cache), size=batch_size)
    room = np.array([cache.low(i).shape[:2] for i in pictures]) - patch
    if (room < 0).any():
        require_patch(cache, patch)
    corners = random.integers(room + 1)
    turns = random.integers(8, size=batch_size)
    columns = pictures.tolist(), *corners.T.tolist(), turns.tolist()
    return tuple(Crop(*values) for values in zip(*columns, strict=True))


def require_patch(cache: PixelCache, patch: int) -> None:
    """Raise DataError that names the pictures from which no LR patch of this side can be cut."""
    small = [i for i in range(len(cache)) if min(cache.low(i).shape[:2]) < patch]
    if small:
        sizes = [f"{cache.names[i]} ({_size(cache.high(i))})" for i in small[:5]]
        more = f" and {len(small) - 5} more" if len(small) > 5 else ""
        side = patch * cache.scale
        raise DataError(
            f"{len(small)} of {len(cache)} pictures of {cache.name} are smaller than the HR patch "
            f"of {side} x {side} (LR patch {patch}, scale {cache.scale}): {', '.join(sizes)}{more} "
            "(width x height). Remove them, or make the patch smaller."
        )


def batches(
    cache: PixelCache,
    *,
    seed: int,
    start_step: int,
    batch_size: int,
    patch: int,
    part: int = 0,
    parts: int = 1,
) -> Generator[Batch, None, None]:
    """`batch` of start_step, start_step + 1, ... without end, made ahead by a thread.

    Close it when done (`with contextlib.closing(batches(...)) as stream`): that ends the thread.
    What goes wrong in the thread is raised here; DataError if no batch comes for WAIT_SECONDS.
    """
    require_patch(cache, patch)
    make = partial(
        batch, cache, seed=seed, batch_size=batch_size, patch=patch, part=part, parts=parts
    )
    return _ahead(make, start_step, cache.name)


def _ahead(make: MakeBatch, start_step: int, name: str) -> Generator[Batch, None, None]:
    """The consumer's side: start the thread, hand over what it makes, end it."""
    made: Made = queue.Queue(QUEUED)
    stop = threading.Event()
    thread = threading.Thread(
        target=_produce, args=(make, start_step, made, stop), name="patches", daemon=True
    )
    thread.start()
    try:
        while True:
            item = made.get(timeout=WAIT_SECONDS)
            if isinstance(item, Exception):
                raise item
            yield item
    except queue.Empty:
        raise DataError(
            f"no batch of {name} for {WAIT_SECONDS:.0f} s: the disk of the pixel cache does not "
            "answer; set SR_CACHE to a folder on another one"
        ) from None
    finally:
        stop.set()
        thread.join(timeout=10)


def _produce(make: MakeBatch, start_step: int, made: Made, stop: threading.Event) -> None:
    """The thread's side: fill the queue until told to stop, or until something goes wrong."""
    try:
        for step in itertools.count(start_step):
            if not _put(make(step=step), made, stop):
                return
    except Exception as error:  # raised again where the batch was wanted
        _put(error, made, stop)


def _put(item: Batch | Exception, made: Made, stop: threading.Event) -> bool:
    """Put an item into the queue when there is room; False if told to stop first."""
    while not stop.is_set():
        with contextlib.suppress(queue.Full):
            made.put(item, timeout=0.1)
            return True
    return False


def _cut(picture: Pixels, crop: Crop, patch: int, scale: int) -> Pixels:
    """(3, side, side) view of an (h, w, 3) picture, flipped and turned."""
    top, left, side = crop.top * scale, crop.left * scale, patch * scale
    cut = picture[top : top + side, left : left + side]
    if crop.turn & 1:
        cut = cut[:, ::-1]
    if crop.turn & 2:
        cut = cut[::-1]
    return cut.transpose(2, 1, 0) if crop.turn & 4 else cut.transpose(2, 0, 1)


def _size(picture: Pixels) -> str:
    return f"{picture.shape[1]} x {picture.shape[0]}"
