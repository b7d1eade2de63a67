"""Hidden colours are replaced by their surroundings, and by nothing else."""

import numpy as np
from numpy.typing import NDArray

from sr_app.image.alpha import BLEED, without_hidden


def disc(side: int = 40, radius: int = 6) -> NDArray[np.float32]:
    y, x = np.mgrid[:side, :side] - side // 2
    return ((x**2 + y**2 <= radius**2)[..., None] * 255).astype(np.float32)


def test_hidden_colours_are_of_no_effect_and_seen_ones_stay() -> None:
    alpha = disc()
    seen = np.random.default_rng(0).uniform(0, 255, (40, 40, 3)).astype(np.float32)
    green, blue = (np.where(alpha > 0, seen, np.float32(c)) for c in ([0, 255, 0], [0, 0, 255]))
    filled = without_hidden(green, alpha)
    np.testing.assert_array_equal(filled, without_hidden(blue, alpha))
    np.testing.assert_array_equal(filled[alpha[..., 0] > 0], seen[alpha[..., 0] > 0])


def test_the_surroundings_of_one_colour_take_on_that_colour_as_far_as_it_is_carried() -> None:
    alpha = np.zeros((41, 41, 1), np.float32)
    alpha[20, 20] = 1
    red = np.zeros((41, 41, 1), np.float32)
    red[20, 20] = 200
    filled = without_hidden(red, alpha)[..., 0]
    near = slice(20 - BLEED, 20 + BLEED + 1)
    np.testing.assert_allclose(filled[near, near], 200, rtol=1e-6)  # means of equal numbers
    filled[near, near] = 127.5
    assert (filled == 127.5).all()


def test_without_hidden_pixels_nothing_is_done() -> None:
    color = np.ones((3, 4, 3), np.float32)
    assert without_hidden(color, np.full((3, 4, 1), 0.5, np.float32)) is color
