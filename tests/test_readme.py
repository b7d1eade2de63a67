"""README's commands run, and its figures are those of results/."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sr_app import report, threads
from sr_app.cli.train import CONFIGS, PROJECT
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


def result(name: str) -> dict[str, object]:
    loaded: dict[str, object] = json.loads((PROJECT / "results" / name).read_text())
    return loaded


def block(name: str) -> str:
    """What stands in README between the marks of a results file."""
    found = re.search(rf"<!-- results/{name} -->\n(.*?)\n<!-- end -->", README, re.DOTALL)
    assert found, f"README has no block for {name}"
    return found[1]


def test_the_table_of_scores_is_made_from_its_results() -> None:
    scores = result("edsr_light_x2.json")
    assert block("edsr_light_x2.json") == report.markdown_table(scores)


def test_the_first_sentence_is_the_measured_number() -> None:
    set5 = result("edsr_light_x2.json")["sets"][0]
    assert set5["set"] == "Set5"
    ours, bicubic = set5["mean"]["edsr_light_x2"]["psnr"], set5["mean"]["bicubic"]["psnr"]
    assert f"**{ours:.2f} dB on Set5 x2**, {ours - bicubic:.1f} dB above bicubic" in README


def test_the_table_of_speed_is_made_from_its_results() -> None:
    others = ["PyTorch", "PyTorch channels_last", "PyTorch compiled", "MindSpore's operators"]
    lines = [f"| batch | ours / {' | / '.join(others)} | GFLOP/s | peak memory |"]
    lines.append("|" + "---|" * (len(others) + 3))
    for batch, sides in result("train_step.json")["figures"].items():
        ratios = [f"{sides[name]['ours_over_it']['median']:.2f}" for name in others]
        rates = [f"{sides[name]['gflops']['median']:.0f}" for name in ("ours", "a matrix product")]
        memory = [f"{sides[name]['peak_mb']:.0f}" for name in ("ours", "ours, low memory")]
        memory += [f"{sides['PyTorch']['peak_mb']:.0f}"]
        lines.append(
            f"| {batch.removeprefix('batch ')} | {' | '.join(ratios)} "
            f"| {' / '.join(rates)} | {' / '.join(memory)} MB |"
        )
    assert block("train_step.json") == "\n".join(lines)


def test_the_table_of_latency_is_made_from_its_results() -> None:
    figures = result("latency.json")["figures"]
    names = list(next(iter(figures.values()))["sides"])
    lines = ["| by | " + " | ".join(figures) + " |", "|" + "---|" * (len(figures) + 1)]
    for name in names:
        sides = [size["sides"][name] for size in figures.values()]
        cells = [
            f"{side['milliseconds']['median']:.0f} ms, {side['over_best_peer']:.2f}"
            for side in sides
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    assert block("latency.json") == "\n".join(lines)


def test_the_table_of_upscaling_is_made_from_its_results() -> None:
    names = {"sr_app": "ours", "pillow": "bicubic, Pillow", "realcugan": "Real-CUGAN, ncnn"}
    lines = ["| picture | by | first, new process | next | a megapixel | peak memory |"]
    lines.append("|---|---|---|---|---|---|")
    for size, sides in result("upscale.json")["figures"].items():
        for name, each in sides.items():
            lines.append(
                f"| {size} | {names[name]} | {each['cold_seconds']:.1f} s "
                f"| {each['warm_seconds']:.2f} s | {each['warm_seconds_a_megapixel']:.1f} s "
                f"| {each['peak_mb']:.0f} MB |"
            )
    assert block("upscale.json") == "\n".join(lines)


def test_the_table_of_ranks_is_made_from_its_results() -> None:
    lines = [
        "| processes | what | ms, buckets / each tensor | gain | all-reduces |",
        "|" + "---|" * 5,
    ]
    for world, measured in result("ranks.json")["figures"].items():
        for what, sides in measured.items():
            if world == "1 process" or what.startswith("norm"):
                continue
            ours, single = sides["buckets"], sides["each tensor"]
            one, other = (side["milliseconds"] for side in (ours, single))
            lines.append(
                f"| {world.partition(' ')[0]} | {what} | {one:.1f} / {other:.1f} "
                f"| {other / one - 1:+.0%} | {ours['collectives']} / {single['collectives']} |"
            )
    assert block("ranks.json") == "\n".join(lines)


def test_the_table_of_memory_is_made_from_its_results() -> None:
    lines = ["| ranks | held, counted | | peak memory, measured | |", "|" + "---|" * 5]
    figures = result("memory.json")["figures"]
    whole = figures["tensor 1"]
    for name, sizes in figures.items():
        cells = [
            cell
            for what in ("together", "peak")
            for cell in (f"{sizes[what]:.0f} MB", f"{sizes[what] / whole[what] - 1:+.0%}")
        ]
        lines.append(f"| {name.removeprefix('tensor ')} | {' | '.join(cells)} |")
    assert block("memory.json") == "\n".join(lines)


@pytest.mark.slow
def test_the_tables_of_the_scaling_document_are_made_by_its_script() -> None:
    words = [sys.executable, "benchmarks/scaling.py"]
    done = subprocess.run(words, cwd=PROJECT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    document = (PROJECT / "docs/scaling.md").read_text()
    for text in done.stdout.strip().split("\n\n"):
        name, _, table = text.partition("\n")
        assert f"<!-- {name} -->\n{table}\n<!-- end -->" in document
