"""What the machine can do: a product of two float32 matrices."""

from __future__ import annotations

import numpy as np
from interleave import Take


def start(side: int) -> Take:
    """A product, (side, side) x (side, side): 2 * side^3 operations."""
    a, b = np.random.default_rng(0).standard_normal((2, side, side)).astype(np.float32)
    return lambda steps: [float((a @ b)[0, 0]) for _ in range(steps)]
