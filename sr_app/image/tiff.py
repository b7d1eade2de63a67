"""TIFF and BigTIFF, written strip by strip: 8, 16 bits and float, of any size, in pages (TIFF 6.0).

Pillow writes no 16-bit colour, fails on EXIF in a compressed TIFF, and holds the whole picture;
tifffile writes no EXIF.
"""

import struct
import zlib
from collections.abc import Iterable
from fractions import Fraction
from typing import IO, Any

from PIL import Image, TiffImagePlugin, TiffTags

from sr_app.image.notes import EXIF_FOLDERS, EXIF_IN_TIFF
from sr_app.image.picture import Banded, Header

_STRIP = 2**20  # bytes, about
_CLASSIC = 2**32 - 2**28  # bytes of pixels that 32-bit offsets surely reach
_DEFLATE, _DIFFERENCES, _ALPHA = 8, 2, 2
_TOGETHER, _PAGE, _INCH, _FLOAT = 1, 2, 2, 3
_PACKED = {  # how a value of a type is packed
    TiffTags.SHORT: "H",
    TiffTags.LONG: "I",
    TiffTags.LONG8: "Q",
    TiffTags.RATIONAL: "II",
}

Tags = dict[int, tuple[int, Any]]
"""Tag -> its type and its values: numbers, or bytes."""


def write_tiff(file: IO[bytes], header: Header, pictures: Iterable[Banded]) -> None:
    """Write pages, deflated; as BigTIFF if all pixels together are near 4 GiB."""
    samples = header.count * header.height * header.width * header.channels
    big = samples * header.dtype.itemsize > _CLASSIC
    head = struct.pack("<2sHHHQ", b"II", 43, 8, 0, 0) if big else struct.pack("<2sHI", b"II", 42, 0)
    file.write(head)
    link = 8 if big else 4  # where the place of the next page's tags is written
    for picture in pictures:
        tags = _pixel_tags(picture, header.count)
        tags |= _written_strips(file, picture, big)
        tags |= _note_tags(file, picture, head)
        link = _write_tags(file, tags, link, big)


def _pixel_tags(picture: Banded, pages: int) -> Tags:
    height, width, channels = picture.shape
    bits = 8 * picture.dtype.itemsize
    tags: Tags = {
        TiffImagePlugin.IMAGEWIDTH: (TiffTags.LONG, [width]),
        TiffImagePlugin.IMAGELENGTH: (TiffTags.LONG, [height]),
        TiffImagePlugin.BITSPERSAMPLE: (TiffTags.SHORT, [bits] * channels),
        TiffImagePlugin.COMPRESSION: (TiffTags.SHORT, [_DEFLATE]),
        TiffImagePlugin.PHOTOMETRIC_INTERPRETATION: (TiffTags.SHORT, [2 if channels >= 3 else 1]),
        TiffImagePlugin.SAMPLESPERPIXEL: (TiffTags.SHORT, [channels]),
        TiffImagePlugin.PLANAR_CONFIGURATION: (TiffTags.SHORT, [_TOGETHER]),
    }
    if pages > 1:
        tags[254] = TiffTags.LONG, [_PAGE]  # NewSubfileType
    if channels in (2, 4):
        tags[TiffImagePlugin.EXTRASAMPLES] = TiffTags.SHORT, [_ALPHA]  # not premultiplied
    if picture.dtype.kind == "f":
        tags[TiffImagePlugin.SAMPLEFORMAT] = TiffTags.SHORT, [_FLOAT] * channels
    else:
        tags[TiffImagePlugin.PREDICTOR] = TiffTags.SHORT, [_DIFFERENCES]
    return tags


def _written_strips(file: IO[bytes], picture: Banded, big: bool) -> Tags:
    """Write the pixels in strips of about a megabyte; returns where they are."""
    height, width, channels = picture.shape
    rows = min(height, max(1, _STRIP // (width * channels * picture.dtype.itemsize)))
    places, sizes = [], []
    for band in picture.cut(rows):
        if band.dtype.kind == "u":
            band[:, 1:] -= band[:, :-1].copy()
        strip = zlib.compress(band.astype(band.dtype.newbyteorder("<"), copy=False).tobytes())
        places.append(file.tell())
        sizes.append(file.write(strip))
    offset = TiffTags.LONG8 if big else TiffTags.LONG
    return {
        TiffImagePlugin.ROWSPERSTRIP: (TiffTags.LONG, [rows]),
        TiffImagePlugin.STRIPOFFSETS: (offset, places),
        TiffImagePlugin.STRIPBYTECOUNTS: (offset, sizes),
    }


def _note_tags(file: IO[bytes], picture: Banded, head: bytes) -> Tags:
    """Profile, resolution and EXIF; its further folders are written here, in their own place."""
    notes, tags = picture.notes, Tags()
    if notes.icc:
        tags[TiffImagePlugin.ICCPROFILE] = TiffTags.UNDEFINED, notes.icc
    if notes.dpi:
        for tag, dpi in zip((282, 283), notes.dpi, strict=True):  # XResolution, YResolution
            part = Fraction(dpi).limit_denominator(1000)
            tags[tag] = TiffTags.RATIONAL, [part.numerator, part.denominator]
        tags[TiffImagePlugin.RESOLUTION_UNIT] = TiffTags.SHORT, [_INCH]
    exif = Image.Exif()
    if notes.exif:
        exif.load(notes.exif)
    for tag in EXIF_IN_TIFF:
        if tag not in exif:
            continue
        if tag not in EXIF_FOLDERS:
            text = str(exif[tag]).encode(errors="replace") + b"\0"
            tags[int(tag)] = TiffTags.ASCII, text
            continue
        folder = TiffImagePlugin.ImageFileDirectory_v2(head, group=int(tag))
        for key, value in exif.get_ifd(tag).items():
            folder[key] = value
        place = _even(file)
        file.write(folder.tobytes(place))
        tags[int(tag)] = TiffTags.LONG8 if len(head) == 16 else TiffTags.LONG, [place]
    return tags


def _write_tags(file: IO[bytes], tags: Tags, link: int, big: bool) -> int:
    """Write a page's tags and link them; returns where the next page's place is to be written."""
    word, slot, entry = ("Q", 8, 20) if big else ("I", 4, 12)
    place = _even(file)
    start = struct.pack("<Q" if big else "<H", len(tags))
    after = place + len(start) + entry * len(tags) + slot
    entries, beyond = [start], []
    for tag, (kind, values) in sorted(tags.items()):
        data = values if isinstance(values, bytes) else _packed(kind, values)
        count = len(data) // struct.calcsize("<" + _PACKED.get(kind, "B"))
        value = data.ljust(slot, b"\0")
        if len(data) > slot:
            value = struct.pack("<" + word, after)
            beyond.append(data + bytes(len(data) % 2))
            after += len(beyond[-1])
        entries.append(struct.pack("<HH" + word, tag, kind, count) + value)
    file.write(b"".join([*entries, bytes(slot), *beyond]))
    end = file.tell()
    file.seek(link)
    file.write(struct.pack("<" + word, place))
    file.seek(end)
    return place + len(start) + entry * len(tags)


def _packed(kind: int, values: list[int]) -> bytes:
    return struct.pack(f"<{len(values)}{_PACKED[kind][0]}", *values)


def _even(file: IO[bytes]) -> int:
    """Go on at an even place, as TIFF asks for."""
    if file.tell() % 2:
        file.write(b"\0")
    return file.tell()
