"""PNG and animated PNG, written row by row: 8 and 16 bits, of any size (PNG specification, 3rd
edition). Pillow holds the whole picture, and writes no 16-bit colour."""

import struct
import zlib
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import IO

import numpy as np
from numpy.typing import NDArray

from sr_app.image.notes import EXIF_START
from sr_app.image.picture import Banded, Header

_ROWS = 64  # filtered at a time
_LARGEST_DELAY = 65_535  # of numerator and denominator, in 16 bits each


def write_png(file: IO[bytes], header: Header, pictures: Iterable[Banded]) -> None:
    """Write a picture, or the frames of an animation, all of one shape and type."""
    sequence = iter(range(2**31))  # of APNG's chunks
    for index, picture in enumerate(pictures):
        if index == 0:
            _write_head(file, header, picture)
        if header.count > 1:
            _chunk(file, b"fcTL", _control(next(sequence), picture))
        for data in _compressed(picture):
            if index == 0:
                _chunk(file, b"IDAT", data)
            else:
                _chunk(file, b"fdAT", struct.pack(">I", next(sequence)) + data)
    _chunk(file, b"IEND", b"")


def _chunk(file: IO[bytes], name: bytes, data: bytes) -> None:
    file.write(struct.pack(">I", len(data)) + name + data)
    file.write(struct.pack(">I", zlib.crc32(data, zlib.crc32(name))))


def _write_head(file: IO[bytes], header: Header, picture: Banded) -> None:
    height, width, channels = picture.shape
    color_type = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    bits = 8 * picture.dtype.itemsize
    file.write(b"\x89PNG\r\n\x1a\n")
    _chunk(file, b"IHDR", struct.pack(">IIBBBBB", width, height, bits, color_type, 0, 0, 0))
    notes = picture.notes
    if notes.icc:
        _chunk(file, b"iCCP", b"icc\0\0" + zlib.compress(notes.icc))
    if notes.dpi:
        by_meter = (round(value / 0.0254) for value in notes.dpi)
        _chunk(file, b"pHYs", struct.pack(">IIB", *by_meter, 1))
    if notes.exif:
        _chunk(file, b"eXIf", notes.exif.removeprefix(EXIF_START))
    if header.count > 1:
        _chunk(file, b"acTL", struct.pack(">II", header.count, header.plays))


def _control(number: int, picture: Banded) -> bytes:
    """What stands before a frame: the whole area, replaced, shown for its time."""
    height, width, _ = picture.shape
    delay = Fraction(picture.duration / 1000).limit_denominator(1000)
    top, bottom = min(delay.numerator, _LARGEST_DELAY), delay.denominator
    return struct.pack(">IIIIIHHBB", number, width, height, 0, 0, top, bottom, 0, 0)


def _compressed(picture: Banded) -> Iterator[bytes]:
    """The rows, filtered and deflated, in pieces."""
    _, width, channels = picture.shape
    pixel = channels * picture.dtype.itemsize
    deflate = zlib.compressobj()
    above = np.zeros(width * pixel, np.uint8)
    for band in picture.cut(_ROWS):
        rows = band.astype(band.dtype.newbyteorder(">")).reshape(len(band), -1).view(np.uint8)
        if data := deflate.compress(_filtered(rows, above, pixel)):
            yield data
        above = rows[-1]
    yield deflate.flush()


def _filtered(rows: NDArray[np.uint8], above: NDArray[np.uint8], pixel: int) -> bytes:
    """Each row by the filter (PNG specification, 9) that leaves the least, which is told first.

    rows: (n, bytes); above: the row before them; pixel: bytes a pixel.
    """
    up = np.concatenate([above[None], rows[:-1]])
    left, corner = np.zeros_like(rows), np.zeros_like(rows)
    left[:, pixel:], corner[:, pixel:] = rows[:, :-pixel], up[:, :-pixel]
    average = (left & up) + ((left ^ up) >> 1)  # (left + up) // 2 without a ninth bit
    predicted = (None, left, up, average, _paeth(left, up, corner))
    best = np.empty((len(rows), 1 + rows.shape[1]), np.uint8)
    least = np.full(len(rows), np.iinfo(np.int64).max)
    for kind, prediction in enumerate(predicted):
        rest = rows if prediction is None else rows - prediction
        cost = np.minimum(rest, 0 - rest).sum(axis=1, dtype=np.int64)
        better = cost < least
        best[better, 0], best[better, 1:], least[better] = kind, rest[better], cost[better]
    return best.tobytes()


def _paeth(
    left: NDArray[np.uint8], up: NDArray[np.uint8], corner: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """Of left, up and corner the one that is nearest to left + up - corner, in that order."""
    down, across = up.astype(np.int16) - corner, left.astype(np.int16) - corner
    to_left, to_up, to_corner = np.abs(down), np.abs(across), np.abs(down + across)
    nearer = np.where(to_up <= to_corner, up, corner)
    return np.where((to_left <= to_up) & (to_left <= to_corner), left, nearer)
