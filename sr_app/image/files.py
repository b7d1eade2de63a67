"""Picture files, read and written without a silent loss.

What a file is by its content and what may be read is in `opening`, pixels come from `decode`, what
formats hold is in `formats`, files are written by `encode`.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sr_app.atomic import replacing
from sr_app.errors import PictureError
from sr_app.image.encode import encode
from sr_app.image.failing import reason
from sr_app.image.formats import FORMATS, require_fit, require_place
from sr_app.image.limits import LIMITS, Limits
from sr_app.image.opening import opened
from sr_app.image.picture import Banded, Header, Picture

SUFFIXES = tuple(FORMATS)
"""The endings, in lower case, of the files that can be read and written."""


def is_picture_name(path: str | os.PathLike[str]) -> bool:
    """Whether the name is that of a picture; hidden files (macOS's `._0001.png`) are none."""
    path = Path(path)
    return path.suffix.lower() in FORMATS and not path.name.startswith(".")


def read(path: str | os.PathLike[str], limits: Limits = LIMITS) -> Picture:
    """Read a picture, turned upright as its EXIF says; the format is told by the content.

    8 and 16 bits, float, gray, alpha and the colours of a palette are kept as they are, and the
    colour profile, EXIF and resolution with them; CMYK becomes sRGB. Limits are checked against the
    header, before any decoding. Raises PictureError for a file that is missing, damaged, too
    large, of several pictures, or of a kind that would come out wrong.
    """
    with opened(Path(path), limits) as album:
        _require_one(Path(path), album.header)
        return next(album.frames()).picture


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
    with opened(Path(path)) as album:
        _require_one(Path(path), album.header)
        return album.header.height, album.header.width


def _require_one(path: Path, header: Header) -> None:
    if header.count > 1:
        what = "frames" if header.animated else "pages"
        raise PictureError(f"{path} has {header.count} {what}; save the one you want as a file")


def write(path: str | os.PathLike[str], picture: Picture, quality: int | None = None) -> None:
    """Write a picture in the format of the path's ending, whole or not at all.

    quality: 1..100 for JPEG (95 by default) and lossy WebP (lossless by default); the other
    formats are lossless (but a GIF, which has 256 colours). Raises PictureError, before any work,
    for what the format can't hold.
    """
    write_all(Path(path), Header.of(picture), [Banded.of(picture)], quality)


def write_all(
    path: Path, header: Header, pictures: Iterable[Banded], quality: int | None = None
) -> None:
    """Write what a header describes, whole or not at all, as its pixels come.

    header: of the pictures that are written. Raises PictureError like `write`, and leaves the
    errors that come from `pictures` as they are.
    """
    format = require_fit(path, header, quality)
    require_place(path)
    try:
        with replacing(path) as temporary, temporary.open("wb") as file:
            encode(file, path, format, header, pictures, quality)
    except OSError as error:
        raise PictureError(
            f"{path} can't be written: {reason(error)}; check the name, the rights and the space"
        ) from error
