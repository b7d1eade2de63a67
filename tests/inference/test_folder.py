"""Folders: which pictures, to what names, what fails and what goes on."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from sr_app.errors import DataError
from sr_app.inference.folder import find_jobs, upscale_in_folder
from sr_app.inference.jobs import Wish
from sr_app.inference.model import Model
from sr_app.inference.networks import Networks


@pytest.fixture
def networks(model: Model) -> Networks:
    return Networks(model)


def save(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def jobs_of(folder: Path, ending: str | None = None) -> dict[str, str]:
    """Source -> target, by name, of what is found."""
    jobs, _ = find_jobs(folder, folder.parent / "out", ending)
    return {
        str(job.source.relative_to(folder)): str(job.target.relative_to(folder.parent / "out"))
        for job in jobs
    }


def test_a_folder_is_mirrored_and_pictures_are_told_by_content(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    save(folder / "a.jpg")
    save(folder / "deep" / "er" / "b.tif")
    save(folder / "c.png").rename(folder / "c.dat")
    save(folder / ".hidden" / "d.png")
    save(folder / "._e.png")
    (folder / "notes.txt").write_text("hello")
    (folder / "broken.png").write_text("hello")
    os.mkfifo(folder / "pipe.png")
    assert jobs_of(folder) == {
        "a.jpg": "a.png",
        "broken.png": "broken.png",
        "c.dat": "c.png",
        "deep/er/b.tif": "deep/er/b.tif",
    }
    _, others = find_jobs(folder, tmp_path / "out", None)
    assert [(o.source.name, o.status, o.reason) for o in others] == [
        ("notes.txt", "skipped", "is no picture"),
        ("pipe.png", "skipped", "is a pipe or a device"),
    ]
    assert jobs_of(folder, ".webp")["a.jpg"] == "a.webp"


def test_two_pictures_are_never_written_to_one_name(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    for name in ("a.jpg", "a.png", "B.png", "b.jpg", "c.png"):
        save(folder / name)
    found = jobs_of(folder)
    assert found == {
        "B.png": "B.png.png",
        "a.jpg": "a.jpg.png",
        "a.png": "a.png.png",
        "b.jpg": "b.jpg.png",
        "c.png": "c.png",
    }
    save(folder / "x.png").rename(folder / "a.jpg.dat")
    with pytest.raises(DataError, match=r"two pictures would be written to a\.jpg\.png"):
        jobs_of(folder)


def test_a_picture_is_never_replaced_and_results_are_not_enlarged_again(
    tmp_path: Path, networks: Networks
) -> None:
    folder = tmp_path / "in"
    save(folder / "a.png")
    with pytest.raises(DataError, match="would replace a picture"):
        find_jobs(folder, folder, None)
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(DataError, match="would replace a picture"):
        find_jobs(folder, tmp_path / "link", None)
    inside = folder / "out"
    for _ in range(2):
        jobs, _ = find_jobs(folder, inside, None)
        assert [job.source.name for job in jobs] == ["a.png"]
        assert [upscale_in_folder(job, networks, Wish()).status for job in jobs] == ["done"]


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    save(folder / "a.png")
    (folder / "again.png").symlink_to("a.png")
    (folder / "out.png").symlink_to(save(tmp_path / "secret.png"))
    (folder / "loop").symlink_to(folder)
    (folder / "gone.png").symlink_to("nowhere.png")
    jobs, others = find_jobs(folder, tmp_path / "out", None)
    assert [job.source.name for job in jobs] == ["a.png", "again.png"]
    found = {outcome.source.name: (outcome.status, outcome.reason) for outcome in others}
    assert found["out.png"] == ("skipped", "is a link that leads out of the folder")
    assert found["loop"] == ("skipped", "is a link to a folder")
    assert found["gone.png"][0] == "failed"


def test_a_folder_without_pictures_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("hello")
    with pytest.raises(DataError, match="no pictures"):
        find_jobs(tmp_path / "in", tmp_path / "out", None)


ODD_NAMES = (
    "图片 é.png",
    "100%d.png",
    "[a-z]*?.png",
    "-o.png",
    "new\nline.png",
    f"{'long' * 62}.jpg",  # of 252 bytes
    os.fsdecode(b"not utf-8 \xff.png"),
)


def test_odd_names_are_taken_literally(tmp_path: Path, networks: Networks) -> None:
    folder = tmp_path / "in % [x]*"
    for name in ODD_NAMES:
        save(folder / "plain.png").rename(folder / name)
    jobs, others = find_jobs(folder, tmp_path / "out", None)
    assert not others
    assert all(upscale_in_folder(job, networks, Wish()).status == "done" for job in jobs)
    written = {path.stem for path in (tmp_path / "out").iterdir()}
    assert written == {Path(name).stem for name in ODD_NAMES}


def test_what_fails_is_told_and_the_others_go_on(tmp_path: Path, networks: Networks) -> None:
    folder = tmp_path / "in"
    for name in ("a.png", "b.png", "c.png"):
        save(folder / name)
    (folder / "b.png").write_bytes((folder / "b.png").read_bytes()[:-40])
    (tmp_path / "out" / "c.png").mkdir(parents=True)
    jobs, _ = find_jobs(folder, tmp_path / "out", None)
    outcomes = [upscale_in_folder(job, networks, Wish()) for job in jobs]
    assert [outcome.status for outcome in outcomes] == ["done", "failed", "failed"]
    assert "b.png is a damaged" in outcomes[1].reason
    assert "there is a folder of that name" in outcomes[2].reason
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"a.png", "c.png"}


def test_an_interrupted_job_continues(
    tmp_path: Path, networks: Networks, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "in"
    for name in ("a.png", "b.png", "c.png"):
        save(folder / name)
    jobs, _ = find_jobs(folder, tmp_path / "out", None)
    enhance, calls = Model.enhance, []

    def interrupted(*given: Any, **more: Any) -> NDArray[np.float32]:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return enhance(*given, **more)

    monkeypatch.setattr(Model, "enhance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        [upscale_in_folder(job, networks, Wish()) for job in jobs]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.png"]
    first = (tmp_path / "out" / "a.png").stat().st_mtime_ns
    outcomes = [upscale_in_folder(job, networks, Wish(), skip_existing=True) for job in jobs]
    assert [outcome.status for outcome in outcomes] == ["skipped", "done", "done"]
    assert (tmp_path / "out" / "a.png").stat().st_mtime_ns == first
