"""Open a stranger's picture file: what it is by its content, and what it says before decoding.

Pillow's classes are called directly, since Image.open would try formats that are not meant here.
"""

import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from PIL import (
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    ImageFile,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from sr_app.errors import PictureError
from sr_app.image import decode
from sr_app.image.failing import failing_as, reason
from sr_app.image.limits import LIMITS, Limits, bounded
from sr_app.image.picture import Frame

READABLE = "PNG, JPEG, WebP, BMP, GIF, TIFF, AVIF and (with the extra `heif`) HEIF can be read"


class Album:
    """An opened file: its header, and its pictures one after another. Made by `opened`."""

    def __init__(self, path: Path, image: ImageFile.ImageFile, limits: Limits) -> None:
        self._path, self._image, self._limits = path, image, limits
        self.header = decode.header(path, image)

    def frames(self) -> Iterator[Frame]:
        """Decode the pictures, each when it is asked for.

        Raises PictureError for what is damaged or can't be read right.
        """
        path, image = self._path, self._image
        for index in range(self.header.count):
            with failing_as(_damaged(path, image.format)), bounded(0, self._limits):
                decode.turn_to(image, self.header, index)
                _require_within(path, image.size, 1, self._limits)  # pages differ
            pixels = image.size[0] * image.size[1]
            with failing_as(_damaged(path, image.format)), bounded(pixels, self._limits):
                frame = decode.frame(path, image, self.header, index)
            if self.header.count == 1:
                image.close()  # Pillow's own copy of the pixels, while they are worked on
            yield frame


@contextmanager
def opened(path: Path, limits: Limits = LIMITS) -> Iterator[Album]:
    """The file's header, and its pictures to be decoded; the format is told by the content.

    Raises PictureError for a file that is missing, damaged, over the limits, or of a kind that
    would come out wrong.
    """
    reader, name = _reader(path)
    with ExitStack() as stack:
        with failing_as(_damaged(path, name)), bounded(0, limits):
            file = stack.enter_context(path.open("rb"))
            image = stack.enter_context(reader(file))
            _require_within(path, image.size, 1, limits)  # before the frames are counted
            _require_within(path, image.size, getattr(image, "n_frames", 1), limits)
            album = Album(path, image, limits)
        yield album


def looks_like_a_picture(path: Path) -> bool:
    """Whether the first bytes are those of a format that can be read; raises PictureError."""
    return _named(_head(path), _SIGNATURES) is not None


class _TiffImageFile(TiffImagePlugin.TiffImageFile):
    """Pillow's, with the header of float colours, which it can't decode (OpenCV does)."""

    def _setup(self) -> None:
        try:
            super()._setup()
        except SyntaxError:
            if decode.tiff_depth(self.tag_v2) not in ((32, 3), (32, 4)):
                raise
            self._mode, self.tile = "RGB", []


def _avif(file: Any) -> ImageFile.ImageFile:
    if not AvifImagePlugin.SUPPORTED:
        raise PictureError(
            f"{file.name} is an AVIF picture, which this Pillow was built without: take the one "
            "of the package index (pip install --force-reinstall pillow)"
        )
    return AvifImagePlugin.AvifImageFile(file)


def _heif(file: Any) -> ImageFile.ImageFile:
    try:
        from pillow_heif import HeifImageFile
    except ImportError as error:
        raise PictureError(
            f"{file.name} is a HEIF picture, which needs a library: pip install 'sr_app[heif]'"
        ) from error
    image: ImageFile.ImageFile = HeifImageFile(file)
    return image


_READERS: dict[str, Any] = {
    "PNG": PngImagePlugin.PngImageFile,
    "JPEG": JpegImagePlugin.JpegImageFile,
    "WebP": WebPImagePlugin.WebPImageFile,
    "BMP": BmpImagePlugin.BmpImageFile,
    "GIF": GifImagePlugin.GifImageFile,
    "TIFF": _TiffImageFile,
    "AVIF": _avif,
    "HEIF": _heif,
}
_SIGNATURES = {
    "PNG": rb"\x89PNG\r\n\x1a\n",
    "JPEG": rb"\xff\xd8\xff",
    "WebP": rb"RIFF....WEBP",
    "BMP": rb"BM",
    "GIF": rb"GIF8[79]a",
    "TIFF": rb"II[*+]\0|MM\0[*+]",
    "AVIF": rb"....ftyp(avif|avis|(mif1|msf1).*avif)",
    "HEIF": rb"....ftyp(hei[cxms]|hev[cxms]|mif1|msf1)",
}
_STRANGERS = {
    "an empty file": rb"\Z",
    "a video": rb"....ftyp",
    "a PDF": rb"%PDF",
    "a Photoshop document": rb"8BPS",
    "a JPEG XL picture": rb"\xff\x0a|\0\0\0\x0cJXL ",
}


def _named(head: bytes, signatures: dict[str, bytes]) -> str | None:
    """The name of the first signature that a file's first bytes match."""
    return next((n for n, sign in signatures.items() if re.match(sign, head, re.DOTALL)), None)


def _head(path: Path) -> bytes:
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise PictureError(f"{path} is a folder; give a picture")
        if not stat.S_ISREG(kind):  # opening a pipe would wait for its writer
            raise PictureError(f"{path} is a pipe or a device; give a picture file")
        with path.open("rb") as file:
            return file.read(48)
    except (OSError, ValueError) as error:
        raise PictureError(
            f"{path} can't be opened: {reason(error)}; check the name and rights"
        ) from None


def _reader(path: Path) -> tuple[Any, str]:
    """What opens the file, by its first bytes, and the format's name."""
    head = _head(path)
    name = _named(head, _SIGNATURES)
    if name is None:
        found = _named(head, _STRANGERS) or "no picture"
        raise PictureError(f"{path} is {found}; {READABLE}")
    return _READERS[name], name


def _damaged(path: Path, name: str | None) -> str:
    return (
        f"{path} is a damaged or incomplete {name} file; get it again or save it anew "
        "(if it was cut off, --allow-truncated takes what there is)"
    )


def _require_within(path: Path, size: tuple[int, int], count: int, limits: Limits) -> None:
    width, height = size
    if count * width * height > limits.max_pixels:
        several = f"{count} pictures of " if count > 1 else ""
        raise PictureError(
            f"{path} is {several}{width} x {height} pixels, over the limit of "
            f"{limits.max_pixels}; scale it down, cut it up, or raise the limit by --max-pixels"
        )
