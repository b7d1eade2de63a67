"""A run that is killed at random moments and resumed is the run that was not, to the last bit."""

import json
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sr_app.nets import weights
from sr_app.training import checkpoint
from tests.parallel.test_launch import started, wait_for

STEPS = 40
SETTINGS = (
    *("--network.blocks", 2, "--network.features", 8, "--average", 0.9, "--batch.size", 4),
    *("--batch.patch", 8, "--steps", STEPS, "--optimizer.schedule", "cosine"),
    *("--optimizer.learning_rate", 3e-3, "--optimizer.warm_up", 3, "--validation.every", 7),
    *("--validation.pictures", 1, "--save_minutes", 1e-9),
)
"""A state is saved after each step, so that a kill often comes in the middle of a save."""
NO_TIMES = ("patches_per_second", "data_wait")


def kept(run: Path) -> dict[str, Any]:
    """All that a run leaves but for what tells of times."""
    path = checkpoint.state_file(run, STEPS)
    arrays, about = weights.read_arrays(path)
    found: dict[str, Any] = {f"state {name}": array.tobytes() for name, array in arrays.items()}
    found["progress"] = about["progress"]
    for name in ("best", "latest"):
        network = weights.read(run / f"{name}.safetensors")
        found |= {f"{name} {each}": array.tobytes() for each, array in network.arrays.items()}
        found[f"{name} record"] = {k: v for k, v in network.record.items() if k != "config"}
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    found["metrics"] = [{k: v for k, v in line.items() if k not in NO_TIMES} for line in lines]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2])
def test_a_run_that_is_killed_and_resumed_is_the_one_that_was_not(
    devices: int, pictures: Path, tmp_path: Path
) -> None:
    """SIGKILL to the launcher or the only process, in random moments of four stretches of the run:
    weights, moments, average, counts, best score, journal. The last start is by --resume."""
    run, whole = tmp_path / "run", tmp_path / "whole"
    words = ("train", "--data", pictures, "--validation.data", pictures, *SETTINGS)
    words = (*words, "--devices", devices)
    with started(*words, "--run", whole) as process:
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0, out + err

    chance = random.Random(devices)
    seen = []
    for stretch in range(4):
        reached = chance.randint(9 * stretch + 1, 9 * stretch + 8)
        with started(*words, "--run", run) as process:
            wait_for(lambda: newest(run) >= reached, process)  # noqa: B023
            time.sleep(chance.uniform(0, 0.05))
            process.send_signal(signal.SIGKILL)
            process.wait()
        wait_until_alone(run)
        seen.append(newest(run))
    assert 0 < seen[0] < seen[-1] < STEPS, "it was killed on the way"
    with started("train", "--resume", run, "--devices", devices) as process:
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0, out + err
    assert "continuing" in out

    found, wanted = kept(run), kept(whole)
    assert found.keys() == wanted.keys()
    differing = [name for name in found if found[name] != wanted[name]]
    assert not differing
    steps = [line["step"] for line in found["metrics"] if "skipped" in line]
    assert steps == [20, 40]
    scored = [line["step"] for line in found["metrics"] if "psnr" in line]
    assert scored == [7, 14, 21, 28, 35, 40]
    assert np.isfinite(found["progress"]["best"])


def newest(run: Path) -> int:
    """Steps of the newest state; 0 without one."""
    found = checkpoint.states(run)
    return int(found[0].stem.partition("-")[2]) if found else 0


def wait_until_alone(run: Path) -> None:
    """Until no process of the run is left: ranks die with their launcher, a moment later."""
    deadline = time.monotonic() + 30
    while True:
        try:
            with checkpoint.locked(run):
                return
        except checkpoint.TrainingError:
            assert time.monotonic() < deadline
            time.sleep(0.1)


Command = Callable[..., tuple[int, str, str]]


def test_resume_takes_the_run_s_own_settings_and_what_is_said_beside(
    command: Command, pictures: Path
) -> None:
    words = ("--data", pictures, "--validation.data", pictures, "--validation.pictures", 1)
    small = ("--network.blocks", 1, "--network.features", 4, "--batch.size", 2, "--batch.patch", 8)
    fast = ("--optimizer.warm_up", 0, "--mode", "pynative")
    assert command("train", "--run", "run", *words, *small, *fast, "--steps", 2)[0] == 0
    status, out, err = command("train", "--resume", "run", "--steps", 3)
    assert status == 0, err
    assert "continuing run after step 2" in out and "3 of 3 steps done" in out
    status, _, err = command("train", "--resume", "run", "--seed", 4)
    assert (status, "seed was 1, now 4" in err) == (2, True)
    status, _, err = command("train", "--resume", "run", "--run", "other")
    assert (status, "give it without them" in err) == (2, True)
    for nothing in ("pictures", "nowhere"):
        status, _, err = command("train", "--resume", nothing)
        assert (status, "there is no run to go on with" in err) == (2, True)
