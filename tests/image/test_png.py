"""The PNG writer: what others read of it."""

import io
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from sr_app.image.picture import Banded, Header, Notes, Picture
from sr_app.image.png import write_png


def pixels(shape: tuple[int, int, int], dtype: Any, kind: str) -> NDArray[Any]:
    """Noise, a ramp (which another filter serves best), or one value."""
    top = np.iinfo(dtype).max
    if kind == "noise":
        noise: NDArray[Any] = np.random.default_rng(0).integers(0, top, shape, dtype, endpoint=True)
        return noise
    places = np.arange(np.prod(shape)).reshape(shape)
    return (places * 7 % (top + 1) if kind == "ramp" else np.full(shape, 3)).astype(dtype)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 70), st.integers(1, 20), st.integers(1, 4)),
    dtype=st.sampled_from([np.uint8, np.uint16]),
    kind=st.sampled_from(["noise", "ramp", "flat"]),
    cut=st.integers(1, 70),
)
def test_opencv_reads_what_was_written_whatever_the_bands(
    shape: tuple[int, int, int], dtype: Any, kind: str, cut: int
) -> None:
    """70 rows are more than the 64 that are filtered at a time."""
    whole = pixels(shape, dtype, kind)
    bands = [whole[top : top + cut] for top in range(0, len(whole), cut)]
    file = io.BytesIO()
    write_png(file, Header.of(Picture(whole)), [Banded(shape, whole.dtype, bands)])
    found = cv2.imdecode(np.frombuffer(file.getvalue(), np.uint8), cv2.IMREAD_UNCHANGED)
    if shape[2] == 2:  # OpenCV repeats the gray
        found = found[..., 2:]
    found = found.reshape(*shape[:2], -1)[..., [[0], [0, 1], [2, 1, 0], [2, 1, 0, 3]][shape[2] - 1]]
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, whole)


def test_smooth_pictures_become_as_small_as_by_pillow(tmp_path: Path) -> None:
    """Within 10 %: libpng chooses a row's filter by the same rule."""
    y, x = np.mgrid[:200, :300]
    waves = [np.sin((x * (c + 1) + y) / 9) + np.sin(x * y / 2000) for c in range(3)]
    smooth = np.uint8(127.5 + 60 * np.stack(waves, axis=2))
    file, theirs = io.BytesIO(), io.BytesIO()
    write_png(file, Header.of(Picture(smooth)), [Banded.of(Picture(smooth))])
    Image.fromarray(smooth).save(theirs, "PNG")
    assert len(file.getvalue()) < 1.1 * len(theirs.getvalue())


@pytest.mark.parametrize("plays", [0, 3])
def test_an_animation_keeps_frames_times_and_repetitions(tmp_path: Path, plays: int) -> None:
    frames = [pixels((9, 8, 4), np.uint8, kind) for kind in ("noise", "flat", "ramp")]
    times = [40.0, 1000 / 30, 70_000.0]
    header = Header(9, 8, 4, np.dtype(np.uint8), count=3, animated=True, plays=plays)
    with (tmp_path / "a.png").open("wb") as file:
        bands = (
            Banded((9, 8, 4), f.dtype, [f], Notes(dpi=(300, 300)), t)
            for f, t in zip(frames, times, strict=True)
        )
        write_png(file, header, bands)
    with Image.open(tmp_path / "a.png") as image:
        assert (image.n_frames, image.info["loop"]) == (3, plays)
        assert image.info["dpi"] == pytest.approx((300, 300), abs=0.01)  # it counts by the metre
        for index, (frame, time) in enumerate(zip(frames, times, strict=True)):
            image.seek(index)
            np.testing.assert_array_equal(np.asarray(image), frame)
            # 65,535 is the greatest number of its field
            assert image.info["duration"] == pytest.approx(min(time, 65_535_000), abs=0.01)
