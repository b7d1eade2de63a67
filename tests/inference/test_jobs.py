"""A file to a larger one: sizes, animations, pages, colours, what stands against it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from sr_app.errors import ConfigError, PictureError, SrAppError
from sr_app.image.files import read
from sr_app.image.limits import Limits
from sr_app.image.picture import Header
from sr_app.inference.jobs import Job, Wish, upscale_file
from sr_app.inference.model import Model
from sr_app.inference.networks import Networks
from tests.inference.nearest import Nearest


@pytest.fixture
def networks(model: Model) -> Networks:
    return Networks(model)


def save(path: Path, size: tuple[int, int] = (6, 4), mode: str = "RGB", **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    values = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 4), np.uint8)
    Image.fromarray(values).convert("RGB").convert(mode).save(path, **options)
    return path


def header(height: int, width: int) -> Header:
    return Header(height, width, 3, np.dtype(np.uint8))


@pytest.mark.parametrize(
    ("wish", "factor"),
    [
        (Wish(), 2),
        (Wish(3.5), 3.5),
        (Wish(width=1920), 3),
        (Wish(height=720), 1.5),
        (Wish(width=1920, height=1080), 2.25),
        (Wish(width=1920, height=2000), 3),
    ],
)
def test_a_wish_is_a_factor(wish: Wish, factor: float) -> None:
    assert wish.factor_of(header(480, 640), 2) == factor


@pytest.mark.parametrize("wrong", [{"factor": 0.5}, {"width": 0}, {"factor": 2.0, "height": 5}])
def test_a_wish_that_makes_no_sense_is_an_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"scale|width"):
        Wish(**wrong)


@pytest.mark.parametrize(
    ("wish", "size"), [(Wish(), (12, 8)), (Wish(1.3), (8, 6)), (Wish(width=11), (11, 8))]
)
def test_a_file_becomes_a_file_of_the_wished_size(
    tmp_path: Path, networks: Networks, wish: Wish, size: tuple[int, int]
) -> None:
    job = Job(save(tmp_path / "a.png"), tmp_path / "b.png")
    outcome = upscale_file(job, networks, wish)
    assert (outcome.before, outcome.after) == ((6, 4), size)
    with Image.open(job.target) as image:
        assert image.size == size


FRAMES = [Image.new("RGB", (6, 4), color) for color in ("red", "lime", "blue")]


@pytest.mark.parametrize("source", ["gif", "webp", "png"])
@pytest.mark.parametrize("target", ["gif", "webp", "png"])
def test_animations_keep_frames_times_and_repetitions(
    tmp_path: Path, source: str, target: str
) -> None:
    path = tmp_path / f"a.{source}"
    times, plays = [40, 70, 110], 3
    options: dict[str, Any] = {"lossless": True} if source == "webp" else {}
    loop = plays - 1 if source == "gif" else plays  # it counts repetitions
    rest = FRAMES[1:]
    FRAMES[0].save(path, save_all=True, append_images=rest, duration=times, loop=loop, **options)
    networks = Networks(Nearest())  # type: ignore[arg-type]
    outcome = upscale_file(Job(path, tmp_path / f"b.{target}"), networks, Wish())
    assert outcome.pictures == 3
    with Image.open(tmp_path / f"b.{target}") as image:
        assert (getattr(image, "n_frames", 1), image.size) == (3, (12, 8))
        assert image.info["loop"] == (plays - 1 if target == "gif" else plays)
        for index, time in enumerate(times):
            image.seek(index)
            image.load()
            assert image.info["duration"] == pytest.approx(time, abs=0.5)
            found = np.asarray(image.convert("RGB"))
            np.testing.assert_array_equal(found, np.asarray(FRAMES[index].resize((12, 8))))


def test_a_gif_keeps_what_is_transparent(tmp_path: Path, networks: Networks) -> None:
    frames = []
    for left in (0, 20):
        frame = Image.new("RGBA", (40, 30), (0, 0, 0, 0))
        frame.paste((200, 30, 40, 255), (left, 0, left + 20, 30))
        frames.append(frame)
    frames[0].save(
        tmp_path / "a.gif", save_all=True, append_images=frames[1:], disposal=2, duration=50
    )
    upscale_file(Job(tmp_path / "a.gif", tmp_path / "b.gif"), networks, Wish())
    with Image.open(tmp_path / "b.gif") as image:
        for index, left in enumerate((0, 40)):
            image.seek(index)
            alpha = np.asarray(image.convert("RGBA"))[..., 3]
            expected = np.zeros((60, 80), np.uint8)
            expected[:, left : left + 40] = 255
            np.testing.assert_array_equal(alpha, expected)


def test_pages_keep_their_own_size_and_kind(tmp_path: Path, networks: Networks) -> None:
    pages = [Image.new("RGB", (6, 4)), Image.new("L", (9, 3)), Image.new("1", (2, 2))]
    pages[0].save(tmp_path / "a.tif", save_all=True, append_images=pages[1:])
    upscale_file(Job(tmp_path / "a.tif", tmp_path / "b.tif"), networks, Wish())
    with Image.open(tmp_path / "b.tif") as image:
        found = []
        for index in range(image.n_frames):  # type: ignore[attr-defined]
            image.seek(index)
            found.append((image.mode, image.size))
    assert found == [("RGB", (12, 8)), ("L", (18, 6)), ("L", (4, 4))]


def cmyk(path: Path) -> Path:
    """Paper at the left, full yellow ink at the right."""
    inks = np.zeros((4, 6, 4), np.uint8)
    inks[:, 3:, 2] = 255
    Image.fromarray(inks, "CMYK").save(path)
    return path


@pytest.mark.filterwarnings("ignore:'mode' parameter:DeprecationWarning")
@pytest.mark.parametrize("name", ["a.jpg", "a.tif"])
def test_cmyk_is_converted_and_not_inverted(tmp_path: Path, networks: Networks, name: str) -> None:
    picture = read(cmyk(tmp_path / name))
    assert picture.pixels.shape == (4, 6, 3)
    # 6 levels: JPEG's loss
    np.testing.assert_allclose(picture.pixels[0, 0].astype(int), [255, 255, 255], atol=6)
    np.testing.assert_allclose(picture.pixels[0, -1].astype(int), [255, 255, 0], atol=6)


@pytest.mark.parametrize(
    ("mode", "source", "target", "message"),
    [
        ("RGBA", "a.png", "b.jpg", "can't hold alpha; write .png"),
        ("RGB", "a.png", "b.xyz", "is none of .png"),
        ("RGB", "a.png", "none/b.png", "no folder"),
        ("RGB", "a.png", "a.png", "is the picture itself"),
        ("F", "a.tif", "b.png", "can't hold float; write .tif"),
        ("I;16", "a.png", "b.jpg", "can't hold 16 bits"),
    ],
)
def test_what_stands_against_writing_is_found_before_any_work(
    tmp_path: Path,
    mode: str,
    source: str,
    target: str,
    message: str,
    networks: Networks,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def work(*_: Any) -> None:
        raise AssertionError("it has begun to work")

    monkeypatch.setattr(Networks, "reaching", work)
    if mode == "I;16":
        Image.fromarray(np.zeros((4, 6), np.uint16)).save(tmp_path / source)
    else:
        save(tmp_path / source, mode=mode)
    before = (tmp_path / source).read_bytes()
    with pytest.raises(PictureError, match=message):
        upscale_file(Job(tmp_path / source, tmp_path / target), networks, Wish())
    assert [path.name for path in tmp_path.iterdir()] == [source]
    assert (tmp_path / source).read_bytes() == before


def test_an_error_in_the_middle_leaves_nothing(
    tmp_path: Path, networks: Networks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the second frame, or of the network, which is no fault of the file."""
    FRAMES[0].save(tmp_path / "a.png", save_all=True, append_images=FRAMES[1:], duration=40)
    data = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(data[: int(len(data) * 0.7)])
    with pytest.raises(PictureError, match=r"a\.png is a damaged"):
        upscale_file(Job(tmp_path / "a.png", tmp_path / "b.png"), networks, Wish())
    save(tmp_path / "a.png")

    def fail(*_: Any, **__: Any) -> NDArray[np.float32]:
        raise ZeroDivisionError

    monkeypatch.setattr(Model, "enhance", fail)
    with pytest.raises(ZeroDivisionError):
        upscale_file(Job(tmp_path / "a.png", tmp_path / "b.png"), networks, Wish())
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_limits_hold_for_all_frames_together(tmp_path: Path, networks: Networks) -> None:
    FRAMES[0].save(tmp_path / "a.gif", save_all=True, append_images=FRAMES[1:])
    job = Job(tmp_path / "a.gif", tmp_path / "b.png")
    with pytest.raises(PictureError, match=r"3 pictures of 6 x 4 .*--max-pixels"):
        upscale_file(job, networks, Wish(limits=Limits(max_pixels=71)))
    upscale_file(job, networks, Wish(limits=Limits(max_pixels=72)))


def test_a_file_cut_short_is_refused_or_taken_as_far_as_it_goes(
    tmp_path: Path, networks: Networks
) -> None:
    save(tmp_path / "a.jpg", (64, 64))
    data = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "a.jpg").write_bytes(data[: len(data) * 2 // 3])
    job = Job(tmp_path / "a.jpg", tmp_path / "b.png")
    with pytest.raises(SrAppError, match="--allow-truncated takes what there is"):
        upscale_file(job, networks, Wish())
    upscale_file(job, networks, Wish(limits=Limits(allow_truncated=True)))
    assert read(job.target).pixels[:64].std() > 10
