"""The file formats that are written, by the ending of the name, and what each can hold."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sr_app.errors import PictureError
from sr_app.image.failing import reason
from sr_app.image.picture import Header


@dataclass(frozen=True)
class Format:
    """What a file format can hold, in our hands.

    Args:
        name: Pillow's.
        alpha: none, only fully transparent or fully opaque (`bit`), or any (`full`).
        depths: bits a sample, 32 being float.
        metadata: colour profile and EXIF.
        lossy: whether it has a quality.
        several: holds `frames` of an animation, `pages`, or neither.
        longest: pixels on a side.
        most: pixels in all; the formats without a bound are written band by band, the others are
            held in memory.
    """

    name: str
    alpha: str = "full"
    depths: tuple[int, ...] = (8,)
    metadata: bool = True
    lossy: bool = False
    several: str = ""
    longest: int = 2**31 - 1
    most: int | None = None


PNG = Format("PNG", depths=(8, 16), several="frames")
JPEG = Format("JPEG", alpha="", lossy=True, longest=65_535, most=2**28)
WEBP = Format("WEBP", lossy=True, several="frames", longest=16_383, most=2**26)
BMP = Format("BMP", alpha="", metadata=False, most=2**26)
GIF = Format("GIF", alpha="bit", metadata=False, several="frames", longest=65_535, most=2**26)
TIFF = Format("TIFF", depths=(8, 16, 32), several="pages")
FORMATS = {
    ".png": PNG,
    ".jpg": JPEG,
    ".jpeg": JPEG,
    ".webp": WEBP,
    ".bmp": BMP,
    ".gif": GIF,
    ".tif": TIFF,
    ".tiff": TIFF,
}


def format_of(path: Path) -> Format:
    """The format that the path's ending asks for; PictureError if there is none."""
    format = FORMATS.get(path.suffix.lower())
    if format is None:
        raise PictureError(
            f"{path} can't be written: the ending {path.suffix!r} is none of {', '.join(FORMATS)}"
        )
    return format


def require_place(path: Path) -> None:
    """PictureError, before any work, if no file of that name can be written."""
    try:
        path.stat()
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        raise PictureError(f"{path} can't be written: {reason(error)}; check the name") from error
    if path.is_dir():
        trouble = "there is a folder of that name; give another name"
    elif not path.parent.is_dir():
        trouble = f"there is no folder {path.parent}; make it first"
    else:
        return
    raise PictureError(f"{path} can't be written: {trouble}")


def require_fit(path: Path, header: Header, quality: int | None = None) -> Format:
    """The format that the path's ending asks for, once it can hold what the header describes.

    Ask before any work. header: of what is to be written. Raises PictureError that says what the
    format can't hold, and what to do.
    """
    format = format_of(path)
    trouble = _trouble(format, header, quality)
    if trouble is not None:
        raise PictureError(f"{path} can't be written: {trouble}")
    return format


def _trouble(format: Format, header: Header, quality: int | None) -> str | None:
    pixels = header.count * header.height * header.width
    bits = 8 * header.dtype.itemsize
    several = ("frames" if header.animated else "pages") if header.count > 1 else ""
    if quality is not None and not (format.lossy and 1 <= quality <= 100):
        return f"quality is for JPEG and WebP and goes from 1 to 100, got {quality}"
    if bits not in format.depths:
        kind, better = ("float", ".tif") if bits == 32 else (f"{bits} bits", ".png or .tif")
        return f"{format.name} can't hold {kind}; write {better}, or an 8-bit picture"
    if several and several != format.several:
        better = ".png, .webp or .gif" if header.animated else ".tif"
        return f"{format.name} can't hold the {header.count} {several}; write {better}"
    if header.channels in (2, 4) and not format.alpha:
        return f"{format.name} can't hold alpha; write .png or flatten the picture first"
    if header.channels in (2, 4) and format.alpha == "bit" and not header.hard_edged:
        return f"{format.name} can't hold what is half transparent; write .png or .webp"
    if format is TIFF and header.dtype != np.uint8 and header.channels == 2:
        return "gray with alpha and 16 bits is not read back from TIFF; write .png"
    if header.annotated and not format.metadata:
        return f"{format.name} can't hold the colour profile and EXIF; write .png"
    if max(header.height, header.width) > format.longest:
        return f"{format.name} ends at {format.longest} pixels a side; write .png or .tif"
    if format.most is not None and pixels > format.most:
        return (
            f"{pixels} pixels of {format.name} don't fit into memory, "
            f"which ends at {format.most}; write .png or .tif, which are written piece by piece"
        )
    return None
