"""Ranks are started, watched, stopped; what goes wrong ends all of them with a reason.

Runs of real processes; each start takes some seconds, so one run serves many assertions.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import pytest

from sr_app import threads
from sr_app.errors import ConfigError
from sr_app.nets import weights
from sr_app.parallel import launch
from sr_app.parallel.launch import Ranks, wanted
from sr_app.training import checkpoint

Command = Callable[..., tuple[int, str, str]]
TINY = (
    *("--network.blocks", 1, "--network.features", 4, "--average", 0.5, "--optimizer.warm_up", 0),
    *("--batch.size", 2, "--batch.patch", 8, "--validation.pictures", 2),
)
BOUND = 30.0
"""Seconds in which a failure must have ended everything, by the project's promise."""


def same_weights(one: Path, other: Path, tolerance: float) -> None:
    """Numbers of two states, next to the largest of each array."""
    ours, theirs = (weights.read_arrays(newest(path))[0] for path in (one, other))
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        if not name.startswith("adam"):
            scale = max(np.abs(theirs[name]).max(), 1e-3)
            np.testing.assert_allclose(array, theirs[name], rtol=0, atol=tolerance * scale)


def newest(run: Path) -> Path:
    return checkpoint.states(run)[0]


@contextmanager
def started(*words: object) -> Iterator["subprocess.Popen[str]"]:
    """A command in a process of its own; afterwards nothing of it may be left."""
    line = [sys.executable, "-m", "sr_app", *map(str, words)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(line, stdout=pipe, stderr=pipe, text=True, env=environment())
    family = [psutil.Process(process.pid)]
    try:
        yield process
    finally:
        if process.poll() is None:
            family += family[0].children(recursive=True)
            for each in family:
                each.kill()
        process.communicate()


def environment() -> dict[str, str]:
    """As a user has it: the launcher sets the ranks' own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("MS_")}


def ranks_of(process: "subprocess.Popen[str]", count: int) -> dict[int, psutil.Process]:
    """The ranks under a launcher, once all are there; waits a minute at most."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        found = {}
        for each in psutil.Process(process.pid).children(recursive=True):
            try:
                about = each.environ()
            except psutil.Error:
                continue
            if about.get("MS_ROLE") == "MS_WORKER":
                found[int(about["RANK_ID"])] = each
        if len(found) == count:
            return found
        time.sleep(0.1)
    raise AssertionError(f"no {count} ranks: {process.communicate()}")


def wait_for(there: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + 120
    while not there():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def descendants(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def test_two_ranks_train_and_score_as_one(command: Command, pictures: Path) -> None:
    """To 1e-5 of each array's largest number after 6 steps; sums are taken in another order."""
    run = ("train", "--data", pictures, "--validation.every", 3, "--steps", 6, *TINY)
    status, _, err = command(*run, "--run", "one")
    assert status == 0, err
    status, out, err = command(*run, "--run", "two", "--devices", 2)
    assert status == 0, out + err
    assert "2 ranks: data 2 x tensor 1" in out
    assert out.count("finished; 6 of 6 steps done") == 1
    same_weights(Path("two"), Path("one"), 1e-5)
    assert not psutil.Process().children(recursive=True)


@pytest.mark.slow
def test_scores_of_several_ranks_are_those_of_one_to_the_last_digit(
    command: Command, pictures: Path
) -> None:
    for name, devices in (("one", 1), ("two", 2)):
        words = ("--sets", f"{pictures},sample", "--scale", 2, "--json", f"{name}.json")
        status, out, err = command("eval", *words, "--devices", devices)
        assert status == 0, out + err
    one, two = (json.loads(Path(f"{name}.json").read_text()) for name in ("one", "two"))
    assert one.pop("command") != two.pop("command")
    assert one == two


@pytest.mark.slow
def test_a_folder_is_upscaled_by_several_ranks_as_by_one(command: Command, pictures: Path) -> None:
    folder = Path("folder")
    shutil.copytree(pictures, folder)
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    for name, devices in (("one", 1), ("two", 2)):
        status, out, err = command("upscale", folder, "-o", name, "--devices", devices)
        assert status == 1, out + err
        assert "broken.png" in out + err and "1 failed" in out
    one, two = ({p.name: p.read_bytes() for p in Path(n).rglob("*.png")} for n in ("one", "two"))
    assert len(one) > 1 and one == two


def test_one_picture_is_not_shared_out(command: Command) -> None:
    status, _, err = command("upscale", "photo.jpg", "--devices", 2)
    assert status == 2 and "photo.jpg is one picture; a folder's are shared out" in err


@pytest.mark.slow
def test_a_rank_that_is_killed_ends_the_run_with_its_last_lines(
    pictures: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    words = ("train", "--data", pictures, "--run", run, "--steps", 100_000, *TINY)
    with started(*words, "--validation.every", 100_000, "--devices", 2) as process:
        ranks = ranks_of(process, 2)
        wait_for(lambda: (run / "metrics.jsonl").exists() and bool(records(run)), process)
        family = descendants(process)
        assert len(family) >= 4  # msrun, the scheduler, two ranks
        ranks[1].kill()
        _, err = process.communicate(timeout=BOUND)
        assert process.returncode == 2
        assert "error: rank 1 was killed by signal 9 (SIGKILL)" in err
        assert "worker_1.log" in err
        assert not [each for each in family if alive(each)]


def records(run: Path) -> list[str]:
    return (run / "metrics.jsonl").read_text().splitlines()


def alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_saves_on_all_ranks(number: int, pictures: Path, tmp_path: Path) -> None:
    words = ("train", "--data", pictures, *TINY, "--validation.every", 100_000)
    run, steps = tmp_path / "run", ("--steps", 100_000)
    with started(*words, "--run", run, *steps, "--devices", 2) as process:
        wait_for(lambda: (run / "metrics.jsonl").exists() and bool(records(run)), process)
        family = descendants(process)
        process.send_signal(number)
        out, err = process.communicate(timeout=BOUND)
        assert process.returncode == 130, out + err
        assert "the same command again continues" in out
        assert not [each for each in family if alive(each)]
    about = weights.read_arrays(newest(run))[1]
    assert about["progress"]["step"] >= 20


@pytest.mark.slow
def test_nothing_is_left_when_the_launcher_is_killed(pictures: Path, tmp_path: Path) -> None:
    words = ("train", "--data", pictures, "--steps", 100_000, *TINY, "--run", tmp_path / "run")
    with started(*words, "--devices", 2) as process:
        wait_for(lambda: (tmp_path / "run/metrics.jsonl").exists(), process)
        family = descendants(process)
        process.kill()
        _, left = psutil.wait_procs(family, timeout=BOUND)
        assert not left


@pytest.mark.slow
def test_an_error_on_the_ranks_is_told(command: Command, pictures: Path) -> None:
    """The folder of another run: rank 0 says so while the other waits."""
    words = ("train", "--data", pictures, "--run", "run", "--steps", 1, *TINY)
    assert command(*words)[0] == 0
    began = time.monotonic()
    status, out, err = command(*words, "--seed", 2, "--devices", 2)
    assert time.monotonic() - began < BOUND + 30  # with their start
    assert status == 2
    assert "seed was 1, now 2" in out + err
    assert "rank 0 ended with status 2" in err


def test_a_port_in_use_is_told_before_anything_starts(command: Command, pictures: Path) -> None:
    with socket.socket() as taken:
        taken.bind((launch.LOCAL, 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = ("train", "--data", pictures, "--run", "run", *TINY, "--devices", 2)
        status, _, err = command(*words, "--master", f"{launch.LOCAL}:{port}")
    assert status == 2
    assert f"--master {launch.LOCAL}:{port}: can't be used" in err
    assert not Path("run").exists()


@pytest.mark.slow
def test_a_rank_without_its_launcher_says_so(pictures: Path, tmp_path: Path) -> None:
    """mindcv issue 480: "Role name '' is invalid"."""
    words = [sys.executable, "-m", "sr_app", "train", "--run", str(tmp_path / "run")]
    bare = environment() | {"MS_ROLE": "MS_WORKER"}
    done = subprocess.run(words, env=bare, capture_output=True, text=True, timeout=BOUND)
    assert done.returncode == 2
    assert "this is a rank without its launcher" in done.stderr

    with socket.socket() as probe:
        probe.bind((launch.LOCAL, 0))
        port = probe.getsockname()[1]
    bare |= {"MS_WORKER_NUM": "2", "MS_SCHED_HOST": launch.LOCAL, "MS_SCHED_PORT": str(port)}
    bare |= {"RANK_ID": "0", "MS_NODE_ID": "0", "MS_TOPO_TIMEOUT": "5"}
    done = subprocess.run(words, env=bare, capture_output=True, text=True, timeout=2 * BOUND)
    assert done.returncode == 2
    assert f"the ranks did not meet at {launch.LOCAL}:{port} within 5 s" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--devices", 0), "--devices 0: this machine has"),
        (("--devices", 10_000), "--devices 10000: this machine has"),
        (("--nodes", 2), "--nodes 2 needs --master HOST:PORT"),
        (("--nodes", 2, "--node_rank", 2), "servers are numbered from 0"),
        (("--master", "here"), "must be HOST:PORT"),
        (("--parallel.fusion", "mindspore"), "fuses nothing on the CPU: take buckets"),
        (("--devices", 3), "batch.size is 2, which 3 ranks can't share evenly"),
        (("--devices", 3, "--parallel.tensor", 2), "does not divide the 3 ranks; it can be 1, 3"),
        (
            ("--devices", 3, "--parallel.tensor", 3),
            "does not divide the 4 channels of network.features; it can be 1, 2, 4",
        ),
    ],
)
def test_an_impossible_world_is_told_before_anything_starts(
    words: tuple[object, ...], message: str, command: Command
) -> None:
    status, out, err = command("train", "--run", "run", *TINY, *words)
    assert status == 2
    assert message in err
    assert "starting" not in out
    assert not Path("run").exists()


def test_on_a_cpu_auto_means_one_process() -> None:
    assert wanted("auto").total == 1
    assert wanted(2, nodes=3, node_rank=1, master="a:8118") == Ranks(2, 3, 1, "a", 8118)
    with pytest.raises(ConfigError, match="or auto"):
        wanted(threads.cores() * launch.MOST_PER_CORE + 1)


def test_ranks_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SR_THREADS", raising=False)
    monkeypatch.setattr(threads, "cores", lambda: 8)
    assert launch._environment(Ranks(3))["SR_THREADS"] == "2"
    monkeypatch.setenv("SR_THREADS", "5")
    assert launch._environment(Ranks(3))["SR_THREADS"] == "5"
