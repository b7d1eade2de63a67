"""Small sets of pictures made on the spot, and a cache folder of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

Save = Callable[..., None]


@pytest.fixture(autouse=True)
def own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the tester's cache and SR_DATA out; `with_sr_data` brings the latter back."""
    monkeypatch.setenv("SR_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SR_DATA", raising=False)


@pytest.fixture
def with_sr_data(sr_data: Path, own_folders: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of pictures that can't be shipped, searched for names as for a user."""
    monkeypatch.setenv("SR_DATA", str(sr_data))
    return sr_data


@pytest.fixture
def save() -> Save:
    """save(folder, "0001.png", ..., size=(height, width)): write pictures of noise."""

    def save_noise(folder: Path, *names: str, size: tuple[int, int] = (24, 36)) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            random = np.random.default_rng(list(name.encode()))
            pixels = random.integers(0, 256, (*size, 3), np.uint8)
            Image.fromarray(pixels).save(folder / name)

    return save_noise


@pytest.fixture
def div2k(tmp_path: Path, save: Save) -> Path:
    """DIV2K's official layout in small, below the folder data/."""
    root = tmp_path / "data"
    for split, numbers in (("train", ("0001", "0002", "0010")), ("valid", ("0801", "0802"))):
        save(root / f"DIV2K/DIV2K_{split}_HR", *(f"{n}.png" for n in numbers))
        lows = root / f"DIV2K/DIV2K_{split}_LR_bicubic/X2"
        save(lows, *(f"{n}x2.png" for n in numbers), size=(12, 18))
    return root / "DIV2K"
