"""README's commands run, and its figures are those of results/."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tables
from PIL import Image

from sr_app import threads
from sr_app.cli.train import CONFIGS, PROJECT
from sr_app.nets.description import EDSRConfig
from sr_app.origin import sha256
from sr_app.parallel import launch

README = (PROJECT / "README.md").read_text()
COMMANDS = [
    words[1:] if words[1] != "-m" else words[2:]
    for line in re.findall(r"^\$ (python .*)$", README, re.MULTILINE)
    if (words := shlex.split(line))
]
TINY = (
    *("--steps", 1, "--network.blocks", 1, "--network.features", 4, "--batch.size", 1),
    *("--batch.patch", 8, "--validation.pictures", 1, "--optimizer.warm_up", 0),
)


def noise(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(names):
        pixels = np.random.default_rng(seed).integers(0, 256, (48, 60, 3), np.uint8)
        Image.fromarray(pixels).save(folder / name)


def test_every_command_of_the_readme_runs(
    command: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In README's order and one folder, on small pictures; training for one step of a small net."""
    monkeypatch.delenv("SR_DATA", raising=False)
    noise(Path("data/DIV2K/DIV2K_train_HR"), "0001.png", "0002.png")
    noise(Path("data/DIV2K/DIV2K_valid_HR"), "0801.png")
    for name in ("Set5", "Set14", "B100"):
        noise(Path("data/benchmarks") / name / "HR", "a.png")
    noise(Path(), "photo.jpg")
    noise(Path("photos"), "a.jpg", "b.png")
    Path("configs").symlink_to(CONFIGS)
    assert len(COMMANDS) >= 10
    for script, *words in COMMANDS:
        if script == "train.py":
            status, _, err = command("train", *words, *TINY)
        elif script == "eval.py":
            status, _, err = command("eval", *words)
        else:
            assert script == "sr_app"
            status, _, err = command(*words)
        assert status == 0, f"{script} {words}: {err}"


def test_the_lines_for_two_servers_start_eight_ranks_on_each(
    command: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to the start itself: one machine can't be two."""
    started: list[launch.Ranks] = []

    def note(words: list[str], ranks: launch.Ranks, logs: Path, show: object) -> int:
        started.append(ranks)
        return 0

    monkeypatch.setattr(launch, "run", note)
    monkeypatch.setattr(threads, "cores", lambda: 8)
    lines = re.findall(r"^server\d\$ python train.py (.*)$", README, re.MULTILINE)
    for line in lines:
        status, _, err = command("train", *shlex.split(line))
        assert status == 0, err
    assert started == [launch.Ranks(8, 2, node, "10.0.0.1", 8118) for node in (0, 1)]


def test_the_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    noise(Path(), "photo.jpg")
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    with Image.open("large.png") as large:
        assert large.size == (120, 96)
    assert names["pixels"].shape == (72, 90, 3)


@pytest.mark.parametrize("document", tables.documents(), ids=lambda path: path.name)
def test_the_tables_are_made_from_the_results(document: Path) -> None:
    """What `python benchmarks/tables.py --write` would write is what stands there."""
    text = document.read_text()
    assert tables.written(text, tables.documents()[document]) == text


def test_there_is_a_table_of_scores_for_each_shipped_network() -> None:
    for checkpoint in (PROJECT / "checkpoints").glob("*.safetensors"):
        scores = tables.result(checkpoint.stem)
        assert scores["checkpoint"]["sha256"] == sha256(checkpoint)
        assert [each["set"] for each in scores["sets"]] == ["Set5", "Set14", "B100"]
        block = tables.documents()[tables.README][f"scores x{scores['scale']}"]()
        assert f"| **{checkpoint.stem}**, ours |" in block


def test_multiply_adds_are_counted_as_the_field_does() -> None:
    """EDSR-baseline's in the tables of its peers (IMDN, CARN): 316, 160, 114 G."""
    published = tables.result("published")["models"]["EDSR-baseline"]
    for scale, wanted in ((2, 316.3e9), (3, 160.2e9), (4, 114.2e9)):
        counted = tables.multiply_adds(blocks=16, features=64, scale=scale)
        assert counted == pytest.approx(wanted, rel=2e-3)
        assert counted == pytest.approx(published[f"x{scale}"]["multiply_adds"], abs=0.06e9)
        assert EDSRConfig(scale=scale).parameters == published[f"x{scale}"]["parameters"]


def test_the_first_sentence_is_the_measured_number() -> None:
    set5 = tables.result("edsr_light_x2")["sets"][0]
    assert set5["set"] == "Set5"
    ours, bicubic = set5["mean"]["edsr_light_x2"]["psnr"], set5["mean"]["bicubic"]["psnr"]
    assert f"**{ours:.2f} dB on Set5 x2**, {ours - bicubic:.1f} dB above bicubic" in README


@pytest.mark.slow
def test_the_tables_of_the_scaling_document_are_made_by_its_script() -> None:
    words = [sys.executable, "benchmarks/scaling.py"]
    done = subprocess.run(words, cwd=PROJECT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    document = (PROJECT / "docs/scaling.md").read_text()
    for text in done.stdout.strip().split("\n\n"):
        name, _, table = text.partition("\n")
        assert f"<!-- {name} -->\n{table}\n<!-- end -->" in document
