"""Shipping a run's network: its file, its scores, its card."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import ship
import tables
from PIL import Image

from sr_app.cli.train import PROJECT
from sr_app.nets import weights
from sr_app.origin import sha256

TINY = (
    *("--steps", 40, "--network.blocks", 1, "--network.features", 4, "--batch.size", 1),
    *("--batch.patch", 8, "--validation.pictures", 1, "--optimizer.warm_up", 0),
)


def noise(folder: Path) -> None:
    folder.mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 256, (48, 60, 3), np.uint8)
    Image.fromarray(pixels).save(folder / "a.png")


def test_a_run_is_shipped(
    command: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SR_DATA", str(tmp_path / "shared"))
    noise(tmp_path / "shared/train/CC0_patches384")
    for name in ("Set5", "Set14", "B100"):
        noise(tmp_path / "shared/benchmarks" / name / "HR")
    for name in ("checkpoints", "results"):
        (tmp_path / name).mkdir()
    data = tmp_path / "shared/train/CC0_patches384"
    words = ("--config", PROJECT / "configs/edsr_light_x2.yaml", "--data", data, "--run", "run")
    assert command("train", *words, *TINY)[0] == 0

    monkeypatch.setattr(ship, "ROOT", tmp_path)
    monkeypatch.setattr(tables, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(sys, "argv", ["ship.py", "run", "edsr_light_x2"])
    ship.main()

    file = tmp_path / "checkpoints/edsr_light_x2.safetensors"
    read, trained = weights.read(file), weights.read(tmp_path / "run/latest.safetensors")
    for name, array in trained.arrays.items():
        np.testing.assert_allclose(read.arrays[name], array, rtol=2**-11, atol=2**-24)
    record = read.record
    assert record["numbers"] == "float16"
    assert record["config"]["data"] == "CC0_patches384"
    assert 0 < record["hours"] < 0.1
    assert record["command"] == (
        "python train.py --config configs/edsr_light_x2.yaml --data CC0_patches384 --steps 40 "
        "--network.blocks 1 --network.features 4 --batch.size 1 --batch.patch 8 "
        "--optimizer.warm_up 0 --validation.pictures 1"
    )
    scores = json.loads((tmp_path / "results/edsr_light_x2.json").read_text())
    assert scores["checkpoint"]["sha256"] == sha256(file)
    assert str(tmp_path) not in json.dumps(scores)
    card = tmp_path / "checkpoints/edsr_light_x2.md"
    assert sha256(file) in card.read_text()
    assert "78 photographs that are CC0" in card.read_text()

    card.write_text(f"By hand.\n\n{card.read_text()}\nGood at noise.\n")
    monkeypatch.setattr(sys, "argv", ["ship.py", "edsr_light_x2"])
    written = card.read_text()
    ship.main()
    assert card.read_text() == written


def test_what_was_trained_on_anything_else_is_not_shipped(
    command: Callable[..., tuple[int, str, str]],
    pictures: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ("--config", PROJECT / "configs/edsr_light_x2.yaml", "--data", pictures)
    assert command("train", *words, "--run", "run", *TINY, "--steps", 1)[0] == 0
    (tmp_path / "checkpoints").mkdir()
    monkeypatch.setattr(ship, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["ship.py", "run", "edsr_light_x2"])
    with pytest.raises(SystemExit, match="pictures: what is it, and its licence"):
        ship.main()
    assert not list((tmp_path / "checkpoints").iterdir())


def test_the_cards_are_made_from_the_files() -> None:
    files = list((PROJECT / "checkpoints").glob("*.safetensors"))
    assert files
    for file in files:
        card = file.with_suffix(".md").read_text()
        assert sha256(file) in card
        if "command" in weights.read(file).record:  # the first was shipped before the script
            assert f"{ship.BEGIN}\n{ship.facts(file.stem)}\n{ship.END}" in card
