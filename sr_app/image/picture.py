"""A picture as a file holds it: pixels with or without alpha, 8 or 16 bits, profile and EXIF."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sr_app.errors import PictureError


@dataclass(frozen=True, eq=False)
class Picture:
    """One upright picture.

    pixels: (h, w, c), uint8 in 0..255 or uint16 in 0..65535; c is 1 gray, 2 gray and alpha,
    3 RGB, 4 RGB and alpha (not premultiplied, opaque at the type's greatest value).
    icc: colour profile. exif: EXIF block that starts with b"Exif\\0\\0", its turn already applied.
    Raises PictureError for pixels of another shape or type.
    """

    pixels: NDArray[np.uint8] | NDArray[np.uint16]
    icc: bytes | None = None
    exif: bytes | None = None

    def __post_init__(self) -> None:
        shape, dtype = self.pixels.shape, self.pixels.dtype
        if len(shape) != 3 or not 1 <= shape[2] <= 4 or 0 in shape:
            raise PictureError(f"a picture's pixels must be (height, width, 1 to 4), got {shape}")
        if dtype not in (np.uint8, np.uint16):
            raise PictureError(f"a picture's pixels must be uint8 or uint16, got {dtype}")

    @property
    def height(self) -> int:
        """Rows of pixels."""
        return int(self.pixels.shape[0])

    @property
    def width(self) -> int:
        """Columns of pixels."""
        return int(self.pixels.shape[1])

    @property
    def color(self) -> NDArray[np.uint8] | NDArray[np.uint16]:
        """The picture without its alpha, (h, w, 1 or 3); a view."""
        return self.pixels[..., : 1 if self.pixels.shape[2] <= 2 else 3]

    @property
    def alpha(self) -> NDArray[np.uint8] | NDArray[np.uint16] | None:
        """The alpha, (h, w, 1), or None without one; a view."""
        return self.pixels[..., -1:] if self.pixels.shape[2] in (2, 4) else None

    def rgb8(self) -> NDArray[np.uint8]:
        """The picture as the networks are trained and scored: RGB, (h, w, 3), uint8, contiguous.

        Gray becomes three equal channels and 16 bits are rounded to 8. An opaque alpha is left
        out; any other one raises PictureError, since the hidden colours mean nothing.
        """
        alpha = self.alpha
        if alpha is not None and int(alpha.min()) < np.iinfo(alpha.dtype).max:
            raise PictureError(
                "the picture has transparent pixels, which can't be trained on or scored; "
                "flatten it on a background first"
            )
        color = self.color
        if color.dtype == np.uint16:  # 65535 = 255 * 257
            color = ((color.astype(np.uint32) + 128) // 257).astype(np.uint8)
        return np.ascontiguousarray(np.broadcast_to(color, (self.height, self.width, 3)), np.uint8)
