"""The luma's fixed points."""

import numpy as np
import pytest

from sr_app.image.color import luma


@pytest.mark.parametrize(
    ("rgb", "expected"),
    [
        ((0, 0, 0), 16.0),
        # the coefficients add up to 219.859 / 256 for 219 / 255: 235 to a thousandth
        ((255, 255, 255), 16 + 255 * 219.859 / 256),
        ((255, 0, 0), 81.4812),
        ((0, 255, 0), 144.5529),
        ((0, 0, 255), 40.9661),
    ],
)
def test_luma_is_the_studio_swing_of_bt601(rgb: tuple[int, int, int], expected: float) -> None:
    result = luma(np.array([[rgb]], np.uint8))
    assert result.dtype == np.float64
    assert result.shape == (1, 1)
    # expected is given to 4 digits
    assert result[0, 0] == pytest.approx(expected, abs=5e-5)
