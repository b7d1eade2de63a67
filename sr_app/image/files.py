"""Picture files, read and written without a silent loss: PNG, JPEG, WebP, BMP and TIFF.

Pillow does the work, but for 16-bit colour, which it cuts to 8 bits without a word: that is read
by OpenCV. What files are written as is in `encode`.
"""

import os
import re
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import (
    BmpImagePlugin,
    ExifTags,
    Image,
    ImageFile,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    TiffTags,
    WebPImagePlugin,
)

from sr_app.atomic import replacing
from sr_app.errors import PictureError
from sr_app.image.encode import (
    EXIF_FOLDERS,
    EXIF_IN_TIFF,
    EXIF_START,
    FORMATS,
    encode,
    require_fit,
)
from sr_app.image.picture import Picture

MAX_PIXELS = 500_000_000


SUFFIXES = tuple(FORMATS)
"""The endings, in lower case, of the files that can be read and written."""


def is_picture_name(path: str | os.PathLike[str]) -> bool:
    """Whether the name is that of a picture; hidden files (macOS's `._0001.png`) are none."""
    path = Path(path)
    return path.suffix.lower() in FORMATS and not path.name.startswith(".")


def read(path: str | os.PathLike[str], max_pixels: int = MAX_PIXELS) -> Picture:
    """Read a picture, turned upright as its EXIF says; the format is told by the content.

    8 and 16 bits, gray, alpha and the colours of a palette are kept as they are, and the colour
    profile and EXIF with them. max_pixels is checked against the header, before any decoding.
    Raises PictureError for a file that is missing, damaged, too large, or not (yet) handled: CMYK,
    several pages or frames, float, HEIF.
    """
    path = Path(path)
    with _opened(path, max_pixels) as image:
        image.load()  # also of 16 bits: OpenCV takes a cut-off file for a black rest
        pixels = _decode_16(path, image) if _is_16_bit(path, image) else _decode_8(path, image)
        if image.format != "TIFF":  # both libraries have turned a TIFF already
            pixels = _turned(pixels, image.getexif().get(ExifTags.Base.Orientation, 1))
        return Picture(np.ascontiguousarray(pixels), image.info.get("icc_profile"), _exif(image))


def read_rgb(path: str | os.PathLike[str]) -> NDArray[np.uint8]:
    """Read a picture as `Picture.rgb8` gives it: (h, w, 3), uint8; raises PictureError."""
    picture = read(path)
    try:
        return picture.rgb8()
    except PictureError as error:
        raise PictureError(f"{path}: {error}") from error


def header_size(path: str | os.PathLike[str]) -> tuple[int, int]:
    """The (height, width) that `read` would give, without decoding.

    Raises PictureError for whatever `read` would refuse by the header alone.
    """
    path = Path(path)
    with _opened(path, MAX_PIXELS) as image:
        width, height = image.size
        if image.format == "TIFF":  # Pillow gives a TIFF's size upright
            return height, width
        if isinstance(image, PngImagePlugin.PngImageFile):
            if _has_late_texts(path):
                image.load()
            exif = Image.Image.getexif(image)  # PngImageFile's own decodes the whole picture
        else:
            exif = image.getexif()
        turned = exif.get(ExifTags.Base.Orientation, 1) in (5, 6, 7, 8)
        return (width, height) if turned else (height, width)


def write(path: str | os.PathLike[str], picture: Picture, quality: int | None = None) -> None:
    """Write a picture in the format of the path's ending, whole or not at all.

    quality: 1..100 for JPEG (95 by default) and lossy WebP (lossless by default); the other
    formats are lossless. Raises PictureError, before any work, for what the format can't hold.
    """
    path = Path(path)
    try:
        format = require_fit(path, picture, quality)
        with _failing_as(f"{path} can't be written as {format.name}"):
            data = encode(picture, format, quality)
        with replacing(path) as temporary:
            temporary.write_bytes(data)
    except (OSError, ValueError) as error:
        raise PictureError(
            f"{path} can't be written: {_reason(error)}; check the name, the rights and the space"
        ) from error


# Reading


class _TiffImageFile(TiffImagePlugin.TiffImageFile):
    """Pillow's, but without its global pixel limit, which it applies when it loads."""

    def load_prepare(self) -> None:
        if self._im is None:
            self.im = Image.new(self.mode, self._tile_size).im
        ImageFile.ImageFile.load_prepare(self)


_READERS: dict[str, type[ImageFile.ImageFile]] = {
    "PNG": PngImagePlugin.PngImageFile,
    "JPEG": JpegImagePlugin.JpegImageFile,
    "WebP": WebPImagePlugin.WebPImageFile,
    "BMP": BmpImagePlugin.BmpImageFile,
    "TIFF": _TiffImageFile,
}
_SIGNATURES = {
    "PNG": rb"\x89PNG\r\n\x1a\n",
    "JPEG": rb"\xff\xd8\xff",
    "WebP": rb"RIFF....WEBP",
    "BMP": rb"BM",
    "TIFF": rb"II[*+]\0|MM\0[*+]",
}
_STRANGERS = {
    "an empty file": rb"\Z",
    "a GIF": rb"GIF8",
    "a HEIF or AVIF picture": rb"....ftyp(?!qt|mp4|iso)",
    "a PDF": rb"%PDF",
    "a Photoshop document": rb"8BPS",
    "a JPEG XL picture": rb"\xff\x0a|\0\0\0\x0cJXL ",
}


def _named(head: bytes, signatures: dict[str, bytes]) -> str | None:
    """The name of the first signature that a file's first bytes match."""
    return next((n for n, sign in signatures.items() if re.match(sign, head, re.DOTALL)), None)


@contextmanager
def _failing_as(message: str) -> Iterator[None]:
    """Tell any failure as PictureError: damaged files make the libraries raise nearly anything."""
    try:
        yield
    except (PictureError, MemoryError):
        raise
    except Exception as error:
        found = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise PictureError(f"{message} ({found})") from error


def _reason(error: OSError | ValueError) -> str:
    """What the system said, or Python of a name that the system would not take."""
    return getattr(error, "strerror", None) or str(error)


@contextmanager
def _opened(path: Path, max_pixels: int) -> Iterator[ImageFile.ImageFile]:
    """The file as an image of Pillow that may be decoded and is not yet.

    Pillow's classes are called directly, since Image.open would apply its own pixel limit, a
    global one, and try formats that are not meant here.
    """
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise PictureError(f"{path} is a folder; give a picture")
        if not stat.S_ISREG(kind):  # opening a pipe would wait for its writer
            raise PictureError(f"{path} is a pipe or a device; give a picture file")
        with path.open("rb") as file:
            head = file.read(32)
    except (OSError, ValueError) as error:
        raise PictureError(
            f"{path} can't be opened: {_reason(error)}; check the name and rights"
        ) from None
    name = _named(head, _SIGNATURES)
    if name is None:
        found = _named(head, _STRANGERS) or "no picture"
        raise PictureError(f"{path} is {found}; PNG, JPEG, WebP, BMP and TIFF can be read")
    reader = _READERS[name]
    failure = f"{path} is a damaged or incomplete {name} file; get it again or save it anew"
    with _failing_as(failure), path.open("rb") as file, reader(file) as image:
        _check_header(path, image, max_pixels)
        yield image


def _check_header(path: Path, image: ImageFile.ImageFile, max_pixels: int) -> None:
    """Refuse what is too large and the kinds of pictures that would come out wrong."""
    width, height = image.size
    if width * height > max_pixels:
        raise PictureError(
            f"{path} is {width} x {height} pixels, over the limit of {max_pixels}; "
            "scale it down or cut it up"
        )
    frames = getattr(image, "n_frames", 1)
    if frames > 1:
        what = "pages" if image.format == "TIFF" else "frames"
        raise PictureError(f"{path} has {frames} {what}; save the one you want as a file")
    kind = image.mode
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        kind = _tiff_trouble(image) or kind
    if kind not in (*_MODES, "I;16", "I;16B"):
        raise PictureError(
            f"{path} has pixels of kind {kind}, which can't be read yet; "
            "save it as gray or RGB with 8 or 16 bits"
        )


def _tiff_trouble(image: TiffImagePlugin.TiffImageFile) -> str | None:
    """The tag of a TIFF that one of the libraries would overlook, or None."""
    tags = image.tag_v2
    if set(tags.get(TiffImagePlugin.SAMPLEFORMAT, (1,))) != {1}:
        return "signed or float"
    bits = set(tags.get(TiffImagePlugin.BITSPERSAMPLE, (1,)))
    if max(bits) <= 8:
        return None
    photometric = tags.get(TiffImagePlugin.PHOTOMETRIC_INTERPRETATION)
    if bits != {16} or photometric not in (1, 2):
        return f"{sorted(bits)} bits with photometric interpretation {photometric}"
    if tags.get(TiffImagePlugin.PLANAR_CONFIGURATION, 1) != 1:
        return "16 bits in separate planes"
    if set(tags.get(TiffImagePlugin.EXTRASAMPLES, (2,))) != {2}:
        return "16 bits with premultiplied alpha or unknown channels"
    return None


def _is_16_bit(path: Path, image: ImageFile.ImageFile) -> bool:
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        return bool(max(image.tag_v2.get(TiffImagePlugin.BITSPERSAMPLE, (1,))) == 16)
    return image.format == "PNG" and _png_kind(path)[0] == 16


def _png_kind(path: Path) -> tuple[int, int]:
    """Bit depth and colour type, 4 being gray and alpha (PNG specification, 11.2.1)."""
    with path.open("rb") as file:
        depth, color_type = file.read(26)[24:]
    return depth, color_type


def _has_late_texts(path: Path) -> bool:
    """Whether a PNG has chunks after its pixels that may turn it (EXIF, XMP)."""
    with path.open("rb", buffering=0) as file:
        file.seek(8)
        seen_pixels = False
        while len(head := file.read(8)) == 8:
            length, name = struct.unpack(">I4s", head)
            seen_pixels |= name == b"IDAT"
            if seen_pixels and name in (b"eXIf", b"iTXt", b"zTXt", b"tEXt"):
                return True
            file.seek(length + 4, os.SEEK_CUR)
    return False


_MODES = {  # Pillow's modes that are read with 8 bits, and what becomes of them
    "1": "L",
    "L": "L",
    "LA": "LA",
    "La": "LA",
    "P": "RGB",
    "PA": "RGBA",
    "RGB": "RGB",
    "RGBX": "RGB",
    "RGBA": "RGBA",
    "RGBa": "RGBA",
}


def _decode_8(path: Path, image: ImageFile.ImageFile) -> NDArray[Any]:
    mode = _MODES[image.mode]
    key = image.info.get("transparency")
    if key is not None and mode == "RGB":
        mode = "RGBA"
    pixels = np.asarray(image if image.mode == mode else image.convert(mode))
    pixels = pixels.reshape(image.height, image.width, -1)
    if key is not None and mode == "L":
        if image.mode == "L":  # Pillow widens 2 and 4 bits to 8 in the pixels, not in the key
            key = key * 255 // (2 ** _png_kind(path)[0] - 1)
        pixels = _with_key(pixels, key)
    return pixels


def _decode_16(path: Path, image: ImageFile.ImageFile) -> NDArray[Any]:
    pixels: NDArray[Any] | None = cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_UNCHANGED)
    if pixels is None or pixels.dtype != np.uint16 or pixels.shape[:2] != image.size[::-1]:
        raise PictureError(f"{path}: OpenCV can't read this 16-bit {image.format}; save it anew")
    if pixels.ndim == 2:
        pixels = pixels[..., None]
        key = image.info.get("transparency")
        return pixels if key is None else _with_key(pixels, key)
    if image.format == "PNG" and _png_kind(path)[1] == 4:  # OpenCV repeats the gray
        return pixels[..., 2:]
    return pixels[..., [2, 1, 0, 3][: pixels.shape[2]]]


def _with_key(gray: NDArray[Any], key: int) -> NDArray[Any]:
    """Gray and alpha from gray in which the value `key` means transparent (PNG's tRNS)."""
    alpha = np.where(gray == key, 0, np.iinfo(gray.dtype).max).astype(gray.dtype)
    return np.concatenate([gray, alpha], axis=2)


def _turned(pixels: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Turn pixels (h, w, c) upright from one of EXIF's eight orientations (EXIF 2.32, 4.6.4)."""
    if orientation in (5, 6, 7, 8):
        pixels = pixels.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return pixels


def _exif(image: ImageFile.ImageFile) -> bytes | None:
    """The EXIF block of a decoded image, saying that the picture is upright."""
    block = image.info.get("exif")
    if block:
        return _upright(EXIF_START + block.removeprefix(EXIF_START))
    tags, kept = image.getexif(), Image.Exif()
    for tag in EXIF_IN_TIFF:
        if tag in tags:
            kept[tag] = tags.get_ifd(tag) if tag in EXIF_FOLDERS else tags[tag]
    return kept.tobytes() if kept else None


def _upright(exif: bytes) -> bytes:
    """Set the Orientation of the first folder to 1 and leave every other byte alone."""
    data = bytearray(exif)
    tiff = len(EXIF_START)
    order = "<" if data[tiff : tiff + 2] == b"II" else ">"
    try:
        folder = tiff + struct.unpack_from(order + "I", data, tiff + 4)[0]
        count = struct.unpack_from(order + "H", data, folder)[0]
        for entry in range(folder + 2, folder + 2 + 12 * count, 12):
            tag, kind = struct.unpack_from(order + "HH", data, entry)
            if tag == ExifTags.Base.Orientation:
                struct.pack_into(
                    order + ("I" if kind == TiffTags.LONG else "H"), data, entry + 8, 1
                )
    except struct.error:  # damaged: there is nothing that a reader could take for a turn
        pass
    return bytes(data)
