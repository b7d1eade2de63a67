"""The scripts of benchmarks/ work: each in its tiny size, in a process of its own."""

import json
import math
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import clip
import leak
import pytest

from benchmarks import interleave
from benchmarks.interleave import Worker

ROOT = Path(__file__).parent.parent
needs_torch = pytest.mark.skipif(
    find_spec("torch") is None, reason="needs PyTorch: pip install -e '.[convert]'"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        pytest.param("train_step", marks=needs_torch),
        pytest.param("latency", marks=needs_torch),
        *("activation", "loader", "upscale", "ranks", "memory", "leak", "clip", "shape"),
        *("endurance", "cold_start"),
    ],
)
def test_a_script_gives_finite_positive_figures(script: str, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    done = subprocess.run(
        [sys.executable, f"benchmarks/{script}.py", "--quick", "--json", str(file)],
        cwd=ROOT,
        env={**os.environ, "SR_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads(file.read_text())
    assert set(record) == {"machine", "versions", "commit", "command", "settings", "figures"}
    figures = list(numbers(record["figures"]))
    assert len(figures) > 5
    counts = script in ("leak", "clip")  # of what may well not happen: 0, or nothing to tell
    given = [figure for figure in figures if not (counts and figure in (None, 0))]
    assert all(math.isfinite(figure) and figure > 0 for figure in given), record["figures"]


@pytest.mark.parametrize(
    ("losses", "skipped", "end", "wanted"),
    [
        ([100.0, 10.0, 29.0, 9.0], 0, "done", False),
        ([100.0, 10.0, 9.0, 28.0], 0, "done", True),
        ([100.0, 10.0, 9.0], 1, "done", True),
        ([100.0, 10.0], 0, "10 steps in a row", True),
        ([], 0, "10 steps in a row", True),
    ],
)
def test_a_run_explodes_when_its_loss_triples_or_is_not_finite(
    losses: list[float], skipped: int, end: str, wanted: bool
) -> None:
    assert clip.exploded({"losses": losses, "skipped": skipped, "end": end}) is wanted


def test_the_step_of_a_psnr_is_taken_between_validations() -> None:
    steps, curve = [100, 200, 300], [20.0, 30.0, 29.0]
    assert leak.reached(steps, curve, 25.0) == 150.0
    assert leak.reached(steps, curve, 30.0) == 200.0
    assert leak.reached(steps, curve, 31.0) == 300.0


def test_a_leak_that_takes_half_of_the_steps_is_told_so() -> None:
    """Plain gets to 30 dB at step 400, the leak at 200: halfway, its share is a half."""
    steps = [200, 400, 600, 800]

    def run(*psnr: float) -> dict[str, Any]:
        curve = list(zip(steps, psnr, strict=True))
        return {"curve": curve, "seconds_a_step": 0.1, "dead": [0.0, 0.5]}

    plain, ours = run(28.0, 30.0, 31.0, 32.0), run(30.0, 31.0, 32.0, 33.0)
    figures = leak.summary([ours], [plain])
    assert figures["halfway"] == {"psnr": 30.0, "steps_over_plain": [0.5]}
    assert figures["dead"] == [0.0, 0.5]


def numbers(tree: Any) -> Iterator[float]:
    """All numbers in nested dictionaries and lists."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list):
        for branch in tree:
            yield from numbers(branch)
    else:
        yield tree


@pytest.fixture
def side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module whose steps have losses 1, 2, ...; it dies or sleeps when told so."""
    (tmp_path / "some_side.py").write_text(
        textwrap.dedent(
            """
            import time

            def start(dies=False, sleeps=0):
                losses = []
                def take(steps):
                    if dies:
                        raise ValueError("no such convolution")
                    time.sleep(sleeps)
                    losses.extend(range(len(losses) + 1, len(losses) + 1 + steps))
                    return losses[-steps:]
                return take
            """
        )
    )
    monkeypatch.syspath_prepend(tmp_path)
    return "some_side"


def test_a_worker_goes_on_where_it_was_frozen(side: str) -> None:
    with Worker(side) as worker:
        assert worker.ask(2).losses == [1, 2]
        state = Path(f"/proc/{worker.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        assert state == "T"  # stopped
        answer = worker.ask(3)
    assert answer.losses == [3, 4, 5]
    assert answer.seconds > 0 and answer.peak_mb > 1
    assert not worker.process.is_alive()


def test_a_worker_that_dies_tells_its_last_lines(side: str) -> None:
    with (
        pytest.raises(
            RuntimeError, match=r"some_side: ended with status 1(.|\n)*no such convolution"
        ),
        Worker(side, dies=True) as worker,
    ):
        worker.ask(1)


def test_a_worker_that_hangs_is_given_up(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interleave, "LIMIT_SECONDS", 0.2)
    with (
        pytest.raises(RuntimeError, match=r"some_side: no answer in 0\.2 s"),
        Worker(side, sleeps=60) as worker,
    ):
        worker.ask(1)
    assert not worker.process.is_alive()


def test_turns_are_taken_in_shifting_order() -> None:
    order: list[str] = []

    def turn(name: str) -> float:
        order.append(name)
        return float(len(order))

    seconds = interleave.interleaved({"a": lambda: turn("a"), "b": lambda: turn("b")}, rounds=2)
    assert order == ["a", "b", "b", "a"]
    assert seconds == {"a": [1, 4], "b": [2, 3]}
