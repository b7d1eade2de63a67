"""Files that break image programs end in the right picture or a clear error; mutated, too."""

import faulthandler
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sr_app.errors import SrAppError
from sr_app.image.files import read
from sr_app.image.limits import Limits
from sr_app.image.opening import opened
from sr_app.image.resize import imresize
from sr_app.inference.folder import find_jobs, upscale_in_folder
from sr_app.inference.jobs import Job, Wish, upscale_file
from sr_app.inference.networks import Networks
from tests.inference.nearest import Nearest
from tests.odd import REFUSED

FAIL = {  # what of the folder `odd` fails, and how
    **REFUSED,
    "truncated.heic": "2 pages" if find_spec("pillow_heif") else "sr_app[heif]",
}
if not find_spec("pillow_heif"):
    FAIL["heic_rgb8.heif"] = "sr_app[heif]"
SECONDS = 300  # for all that is tried in a test: a hang ends the tests with a traceback


@pytest.fixture
def networks() -> Networks:
    """A network that repeats pixels: what is tested is what is around it."""
    return Networks(Nearest())  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def test_every_odd_file_ends_in_the_right_picture_or_an_error(
    sr_data: Path, tmp_path: Path, networks: Networks
) -> None:
    """Each result holds the picture's own pixels twice as large, in its depth, with its notes."""
    jobs, others = find_jobs(sr_data / "odd", tmp_path, None)
    assert [outcome.source.name for outcome in others] == ["INDEX.tsv", *_broken(others)]
    outcomes = [*(upscale_in_folder(job, networks, Wish()) for job in jobs), *others[1:]]
    assert len(outcomes) >= 45
    failed = {o.source.name: o.reason for o in outcomes if o.status == "failed"}
    assert set(failed) == set(FAIL)
    for name, message in FAIL.items():
        assert message in failed[name]
    for outcome in outcomes:
        if outcome.status != "done":
            continue
        assert outcome.target is not None
        with opened(outcome.source) as before, opened(outcome.target) as after:
            assert (after.header.dtype, after.header.plays if after.header.animated else 0) == (
                (before.header.dtype, before.header.plays if before.header.animated else 0)
            )
            for old, new in zip(before.frames(), after.frames(), strict=True):
                assert new.duration == pytest.approx(old.duration, abs=0.5)
                assert new.picture.icc == old.picture.icc
                assert (new.picture.exif is None) == (old.picture.exif is None)
                if old.picture.dpi is not None:  # PNG counts by the metre
                    assert new.picture.dpi == pytest.approx(old.picture.dpi, abs=0.02)
                expected = old.picture.pixels.repeat(2, axis=0).repeat(2, axis=1)
                _require_same_looks(expected, new.picture.pixels, outcome.source.name)


def _broken(outcomes: list) -> list[str]:  # type: ignore[type-arg]
    return [outcome.source.name for outcome in outcomes[1:]]


def _require_same_looks(expected: np.ndarray, found: np.ndarray, name: str) -> None:
    """Equal colours where something is seen, and bicubic alpha."""
    if expected.shape[2] in (1, 3):
        np.testing.assert_array_equal(found, expected, err_msg=name)
        return
    seen = (expected[..., -1] > 0) & (found[..., -1] > 0)
    np.testing.assert_array_equal(found[seen][:, :-1], expected[seen][:, :-1], err_msg=name)
    alpha = imresize(expected[::2, ::2, -1].astype(np.float64), 2)
    alpha = np.clip(alpha, 0, np.iinfo(expected.dtype).max)
    # half a level for rounding, and what float32 adds to 16 bits
    np.testing.assert_allclose(found[..., -1], alpha, rtol=1e-6, atol=0.51, err_msg=name)


MUTATED = (  # small ones of each kind
    *("animated.gif", "animated.webp", "avif_alpha.avif", "bmp_rgba32.bmp", "gif_2x1_alpha.gif"),
    *("heic_rgb8.heif", "jpeg_cmyk_adobe.jpg", "exif_orientation_8.jpg", "png16_rgba.png"),
    *(
        "png8_LA.png",
        "png_exif_chunk.png",
        "png_interlaced_gray16.png",
        "png_palette_trns_2bit.png",
    ),
    *("png_prophoto.png", "tiff_gray16.tif", "truncated.heic", "broken.png", "bomb.gif"),
)


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")  # Pillow warns of damaged tags
@settings(
    max_examples=250,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    name=st.sampled_from(MUTATED),
    flips=st.lists(st.tuples(st.floats(0, 1), st.integers(1, 255)), max_size=8),
    in_head=st.booleans(),
    kept=st.floats(0.2, 1) | st.just(1.0),
    doubled=st.tuples(st.floats(0, 1), st.integers(0, 40)),
    allow_truncated=st.booleans(),
    target=st.sampled_from(["out.png", "out.tif", "out.gif", "out.jpg"]),
)
def test_a_mutated_file_ends_in_a_whole_picture_or_an_error(
    sr_data: Path,
    tmp_path: Path,
    networks: Networks,
    name: str,
    flips: list[tuple[float, int]],
    in_head: bool,
    kept: float,
    doubled: tuple[float, int],
    allow_truncated: bool,
    target: str,
) -> None:
    """Bytes flipped (in the first 200, where headers are, or anywhere), some doubled, an end cut
    off."""
    data = bytearray((sr_data / "odd" / name).read_bytes())
    reach = min(200, len(data)) if in_head else len(data)
    for place, change in flips:
        data[int(place * (reach - 1))] ^= change
    start = int(doubled[0] * len(data))
    data[start:start] = data[start : start + doubled[1]]
    wish = Wish(limits=Limits(max_pixels=1_500_000, allow_truncated=allow_truncated))
    with TemporaryDirectory(dir=tmp_path) as place:
        source, result = Path(place) / "in", Path(place) / target
        source.write_bytes(data[: int(kept * len(data))])
        try:
            outcome = upscale_file(Job(source, result), networks, wish)
        except SrAppError as error:
            assert place in str(error)
            assert list(Path(place).iterdir()) == [source]
            return
        assert set(Path(place).iterdir()) == {source, result}
        if outcome.pictures == 1:
            assert read(result).pixels.shape[:2] == outcome.after[::-1]  # type: ignore[index]
