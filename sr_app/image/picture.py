"""A picture as a file holds it: pixels with or without alpha, 8, 16 bits or float, and the rest."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sr_app.errors import PictureError

DTYPES = (np.uint8, np.uint16, np.float32)
Pixels = NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.float32]


def white(dtype: Any) -> float:
    """The value of white, and of opaque: 255, 65535, or 1.0 of float32."""
    return 1.0 if np.dtype(dtype).kind == "f" else float(np.iinfo(dtype).max)


@dataclass(frozen=True)
class Notes:
    """What a picture carries beside its pixels.

    icc: colour profile. exif: EXIF block that starts with b"Exif\\0\\0", its turn already applied.
    dpi: dots an inch across and down.
    """

    icc: bytes | None = None
    exif: bytes | None = None
    dpi: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class Picture:
    """One upright picture.

    pixels: (h, w, c), uint8 in 0..255, uint16 in 0..65535, or float32 with white at 1.0 (any value
    is allowed, but infinity and nan); c is 1 gray, 2 gray and alpha, 3 RGB, 4 RGB and alpha (not
    premultiplied, opaque at the value of white). icc, exif, dpi: see `Notes`.
    Raises PictureError for pixels of another shape or type.
    """

    pixels: Pixels
    icc: bytes | None = None
    exif: bytes | None = None
    dpi: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        shape, dtype = self.pixels.shape, self.pixels.dtype
        if len(shape) != 3 or not 1 <= shape[2] <= 4 or 0 in shape:
            raise PictureError(f"a picture's pixels must be (height, width, 1 to 4), got {shape}")
        if dtype not in DTYPES:
            raise PictureError(f"a picture's pixels must be uint8, uint16 or float32, got {dtype}")

    @property
    def height(self) -> int:
        """Rows of pixels."""
        return int(self.pixels.shape[0])

    @property
    def width(self) -> int:
        """Columns of pixels."""
        return int(self.pixels.shape[1])

    @property
    def color(self) -> Pixels:
        """The picture without its alpha, (h, w, 1 or 3); a view."""
        return self.pixels[..., : 1 if self.pixels.shape[2] <= 2 else 3]

    @property
    def alpha(self) -> Pixels | None:
        """The alpha, (h, w, 1), or None without one; a view."""
        return self.pixels[..., -1:] if self.pixels.shape[2] in (2, 4) else None

    @property
    def notes(self) -> Notes:
        """What it carries beside its pixels."""
        return Notes(self.icc, self.exif, self.dpi)

    def rgb8(self) -> NDArray[np.uint8]:
        """The picture as the networks are trained and scored: RGB, (h, w, 3), uint8, contiguous.

        Gray becomes three equal channels and 16 bits are rounded to 8. An opaque alpha is left
        out; any other one raises PictureError, since the hidden colours mean nothing, and so does
        a float picture, whose range isn't that of the others.
        """
        alpha = self.alpha
        if self.pixels.dtype == np.float32:
            raise PictureError(
                "the picture holds float values, which can't be trained on or scored; "
                "save it with 8 or 16 bits first"
            )
        if alpha is not None and int(alpha.min()) < white(alpha.dtype):
            raise PictureError(
                "the picture has transparent pixels, which can't be trained on or scored; "
                "flatten it on a background first"
            )
        color: NDArray[Any] = self.color
        if color.dtype == np.uint16:  # 65535 = 255 * 257
            color = ((color.astype(np.uint32) + 128) // 257).astype(np.uint8)
        return np.ascontiguousarray(np.broadcast_to(color, (self.height, self.width, 3)), np.uint8)


@dataclass(frozen=True)
class Header:
    """What is known of a file's pictures before one is decoded.

    Args:
        height, width: of the first, upright.
        channels, dtype: as in `Picture.pixels`.
        count: how many pictures there are.
        animated: whether they are frames of an animation, all of one size; else they are pages.
        plays: how often an animation is shown; 0 means for ever.
        annotated: whether there are a colour profile or EXIF.
        hard_edged: whether alpha, if there is any, is all or nothing.
    """

    height: int
    width: int
    channels: int
    dtype: np.dtype[Any]
    count: int = 1
    animated: bool = False
    plays: int = 1
    annotated: bool = False
    hard_edged: bool = False

    @staticmethod
    def of(picture: Picture) -> "Header":
        """The header of a file with this picture alone."""
        annotated = bool(picture.icc or picture.exif)
        height, width, channels = picture.pixels.shape
        alpha = picture.alpha
        hard = alpha is None or bool(np.isin(alpha, (0, white(alpha.dtype))).all())
        return Header(
            height, width, channels, picture.pixels.dtype, annotated=annotated, hard_edged=hard
        )


@dataclass(frozen=True, eq=False)
class Frame:
    """A picture of a file, and for how many milliseconds it is shown (0 if it doesn't say)."""

    picture: Picture
    duration: float = 0.0


@dataclass(frozen=True, eq=False)
class Banded:
    """A picture whose pixels come from the top in bands of rows, so that they need not all exist.

    Args:
        shape, dtype: of all pixels, as in `Picture.pixels`.
        bands: arrays (rows, w, c), together of that shape; can be taken once.
        notes: what it carries beside its pixels.
        duration: milliseconds, of an animation's frame.
    """

    shape: tuple[int, int, int]
    dtype: np.dtype[Any]
    bands: Iterable[NDArray[Any]]
    notes: Notes = Notes()
    duration: float = 0.0

    @staticmethod
    def of(picture: Picture) -> "Banded":
        """A picture as one band."""
        height, width, channels = picture.pixels.shape
        shape = (height, width, channels)
        return Banded(shape, picture.pixels.dtype, [picture.pixels], picture.notes)

    def cut(self, rows: int) -> Iterator[NDArray[Any]]:
        """The same pixels in bands of exactly `rows` rows, but for the last; contiguous."""
        filled = 0
        block = np.empty((min(rows, self.shape[0]), *self.shape[1:]), self.dtype)
        for band in self.bands:
            while len(band):
                taken = min(len(block) - filled, len(band))
                block[filled : filled + taken] = band[:taken]
                band, filled = band[taken:], filled + taken
                if filled == len(block):
                    yield block
                    block, filled = np.empty_like(block), 0
        if filled:
            yield block[:filled]

    def whole(self) -> Picture:
        """The picture with all its pixels in memory."""
        pixels = np.empty(self.shape, self.dtype)
        top = 0
        for band in self.bands:
            pixels[top : top + len(band)] = band
            top += len(band)
        return Picture(pixels, self.notes.icc, self.notes.exif, self.notes.dpi)
