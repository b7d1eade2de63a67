"""Fixtures shared by all tests."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


@pytest.fixture(scope="session")
def sr_data() -> Path:
    """The folder of pictures that can't be shipped with the project (benchmark sets and others)."""
    folder = os.environ.get("SR_DATA")
    if not folder:
        pytest.skip("needs the pictures that SR_DATA names (benchmark sets and others)")
    path = Path(folder)
    if not path.is_dir():
        pytest.fail(f"SR_DATA is {folder}, which is not a folder")
    return path


@pytest.fixture(autouse=True, scope="session")
def cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Decoded pixels go to a folder of the test session, not to the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SR_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """A plain folder of three small pictures of waves, 64 x 48, each unlike the others."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    y, x = np.mgrid[:48, :64]
    for k in range(3):
        waves = [np.sin((x * (c + 1) + y * (k + 1)) / (3 + k)) for c in range(3)]
        pixels = np.uint8(127.5 + 127.5 * np.stack(waves, axis=2))
        Image.fromarray(pixels).save(folder / f"{k}.png")
    return folder


@pytest.fixture
def command(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """Run one command in an empty folder: (exit status, stdout, stderr)."""
    from sr_app.cli import main

    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> tuple[int, str, str]:
        capfd.readouterr()
        status = main([str(word) for word in words])
        out, err = capfd.readouterr()
        return status, out, err

    return run
