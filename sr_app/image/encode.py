"""Pictures as the bytes of a file: PNG, JPEG, WebP, BMP and TIFF, losing nothing unasked.

Pillow does the work where it can; 16-bit PNGs and all TIFFs are written here, since it writes no
16-bit colour and fails on EXIF in a compressed TIFF.
"""

import io
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, TiffImagePlugin, TiffTags

from sr_app.errors import PictureError
from sr_app.image.picture import Picture


@dataclass(frozen=True)
class Format:
    """What a file format can hold."""

    name: str  # Pillow's
    alpha: bool = True
    sixteen: bool = False  # bits per sample
    metadata: bool = True  # colour profile and EXIF
    lossy: bool = False
    longest: int = 2**31 - 1  # pixels on a side


_PNG = Format("PNG", sixteen=True)
_JPEG = Format("JPEG", alpha=False, lossy=True, longest=65_535)
_WEBP = Format("WEBP", lossy=True, longest=16_383)
_BMP = Format("BMP", alpha=False, metadata=False)
_TIFF = Format("TIFF", sixteen=True)
FORMATS = {
    ".png": _PNG,
    ".jpg": _JPEG,
    ".jpeg": _JPEG,
    ".webp": _WEBP,
    ".bmp": _BMP,
    ".tif": _TIFF,
    ".tiff": _TIFF,
}


EXIF_START = b"Exif\0\0"
EXIF_FOLDERS = (ExifTags.IFD.Exif, ExifTags.IFD.GPSInfo)
EXIF_IN_TIFF = (  # the tags of a TIFF that tell about the picture, not about the file
    ExifTags.Base.ImageDescription,
    ExifTags.Base.Make,
    ExifTags.Base.Model,
    ExifTags.Base.XResolution,
    ExifTags.Base.YResolution,
    ExifTags.Base.ResolutionUnit,
    ExifTags.Base.Software,
    ExifTags.Base.DateTime,
    ExifTags.Base.Artist,
    ExifTags.Base.HostComputer,
    ExifTags.Base.Copyright,
    *EXIF_FOLDERS,
)


def require_fit(path: Path, picture: Picture, quality: int | None = None, scale: int = 1) -> Format:
    """The format that the path's ending asks for, once nothing stands against writing.

    Ask before any work: `scale` is how many times larger than `picture` the result will be. Raises
    PictureError that says what the format or the place can't hold, and what to do.
    """
    format = FORMATS.get(path.suffix.lower())
    if format is None:
        raise PictureError(
            f"{path} can't be written: the ending {path.suffix!r} is none of {', '.join(FORMATS)}"
        )
    sixteen = picture.pixels.dtype == np.uint16
    has_alpha = picture.alpha is not None
    if path.is_dir():
        trouble = "there is a folder of that name; give another name"
    elif not path.parent.is_dir():
        trouble = f"there is no folder {path.parent}; make it first"
    elif quality is not None and not (format.lossy and 1 <= quality <= 100):
        trouble = f"quality is for JPEG and WebP and goes from 1 to 100, got {quality}"
    elif sixteen and not format.sixteen:
        trouble = f"{format.name} can't hold 16 bits; write .png or .tiff, or an 8-bit picture"
    elif has_alpha and not format.alpha:
        trouble = f"{format.name} can't hold alpha; write .png or flatten the picture first"
    elif sixteen and format is _TIFF and picture.pixels.shape[2] == 2:
        trouble = "gray with alpha and 16 bits is not read back from TIFF; write .png"
    elif (picture.icc or picture.exif) and not format.metadata:
        trouble = f"{format.name} can't hold the colour profile and EXIF; write .png"
    elif scale * max(picture.height, picture.width) > format.longest:
        trouble = f"{format.name} ends at {format.longest} pixels a side; write .png"
    else:
        return format
    raise PictureError(f"{path} can't be written: {trouble}")


def encode(picture: Picture, format: Format, quality: int | None) -> bytes:
    """The file's bytes; `format` is what `require_fit` gave for this picture."""
    if format is _TIFF:
        return _encode_tiff(picture)
    if picture.pixels.dtype == np.uint16:
        return _encode_png_16(picture)
    options: dict[str, Any] = {
        "PNG": {},
        "JPEG": {"quality": quality or 95, "subsampling": 0},
        # exact keeps the colours under transparent pixels; quality is the effort if lossless
        "WEBP": {"lossless": quality is None, "quality": quality or 80, "exact": True},
        "BMP": {},
    }[format.name]
    if picture.icc:
        options["icc_profile"] = picture.icc
    if picture.exif:
        options["exif"] = picture.exif
    pixels = picture.pixels
    file = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(
        file, format.name, **options
    )
    return file.getvalue()


def _encode_png_16(picture: Picture) -> bytes:
    """A 16-bit PNG (PNG specification, 5 and 11), each row as its difference from the one above."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    height, width, channels = picture.pixels.shape
    color_type = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    rows = picture.pixels.astype(">u2").reshape(height, -1).view(np.uint8)
    filtered = np.full((height, 1 + rows.shape[1]), 2, np.uint8)  # filter 2: Up
    filtered[:, 1:] = rows
    filtered[1:, 1:] -= rows[:-1]
    parts = [
        b"\x89PNG\r\n\x1a\n",
        chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, color_type, 0, 0, 0)),
        chunk(b"IDAT", zlib.compress(filtered.tobytes())),
        chunk(b"IEND", b""),
    ]
    if picture.exif:
        parts.insert(2, chunk(b"eXIf", picture.exif.removeprefix(EXIF_START)))
    if picture.icc:
        parts.insert(2, chunk(b"iCCP", b"icc\0\0" + zlib.compress(picture.icc)))
    return b"".join(parts)


def _encode_tiff(picture: Picture) -> bytes:
    """A TIFF (TIFF 6.0), deflated in strips of about a megabyte, with predictor 2.

    Pillow writes no 16-bit colour, and fails on EXIF in a compressed TIFF.
    """
    height, width, channels = picture.pixels.shape
    differences: NDArray[Any] = picture.pixels.astype(picture.pixels.dtype.newbyteorder("<"))
    differences[:, 1:] -= picture.pixels[:, :-1]
    rows = max(1, 2**20 // differences[0].nbytes)
    strips = [zlib.compress(differences[y : y + rows].tobytes()) for y in range(0, height, rows)]
    sizes = [len(strip) for strip in strips]
    tags = TiffImagePlugin.ImageFileDirectory_v2()
    if picture.exif:
        exif = Image.Exif()
        exif.load(picture.exif)
        for tag in EXIF_IN_TIFF:
            if tag in exif:
                tags[tag] = exif.get_ifd(tag) if tag in EXIF_FOLDERS else exif[tag]
    tags[TiffImagePlugin.IMAGEWIDTH] = width
    tags[TiffImagePlugin.IMAGELENGTH] = height
    tags[TiffImagePlugin.BITSPERSAMPLE] = (8 * differences.itemsize,) * channels
    tags[TiffImagePlugin.COMPRESSION] = 8  # deflate
    tags[TiffImagePlugin.PREDICTOR] = 2
    tags[TiffImagePlugin.PHOTOMETRIC_INTERPRETATION] = 2 if channels >= 3 else 1
    tags[TiffImagePlugin.SAMPLESPERPIXEL] = channels
    if channels in (2, 4):
        tags[TiffImagePlugin.EXTRASAMPLES] = 2  # alpha, not premultiplied
    if picture.icc:
        tags[TiffImagePlugin.ICCPROFILE] = picture.icc
    tags[TiffImagePlugin.ROWSPERSTRIP] = rows
    tags[TiffImagePlugin.STRIPBYTECOUNTS] = tuple(sizes)
    tags.tagtype[TiffImagePlugin.STRIPOFFSETS] = TiffTags.LONG
    # counted from the end of the tags; Pillow adds where that is
    tags[TiffImagePlugin.STRIPOFFSETS] = tuple(sum(sizes[:i]) for i in range(len(sizes)))
    file = io.BytesIO()
    tags.save(file)
    return b"".join([file.getvalue(), *strips])
