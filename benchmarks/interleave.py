"""Taking turns: what is compared is measured in one run, a turn of one side after a turn of the
other, because a machine's speed changes from minute to minute and a ratio within a round hardly."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import resource
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

THREADS = 2
LIMIT_SECONDS = 600.0  # for one answer of a worker; the slowest, on an idle machine, takes 20 s

Take = Callable[[int], list[float]]
"""Takes so many steps and returns their losses."""


def interleaved(turns: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Seconds of every turn by name; each round begins with another one."""
    names = list(turns)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for first in range(rounds):
        for k in range(len(names)):
            name = names[(first + k) % len(names)]
            seconds[name].append(turns[name]())
    return seconds


def timed(work: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def rates(amount: float, seconds: list[float]) -> dict[str, float]:
    """Amount a second, best and median, of turns that each did that amount."""
    return {"best": amount / min(seconds), "median": amount / statistics.median(seconds)}


def ratios(ours: Mapping[str, float], theirs: Mapping[str, float]) -> dict[str, float]:
    """Ours / theirs, best and median."""
    return {key: ours[key] / theirs[key] for key in ours}


def use_two_cores() -> None:
    """Hold this process and those it starts to two cores, whatever the machine has."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[:THREADS])


@dataclass(frozen=True)
class Answer:
    """What a worker says after its steps: the time they took, and its peak memory so far."""

    seconds: float
    losses: list[float]
    peak_mb: float


class Worker:
    """A process that takes steps when it is asked to, and is frozen in between.

    Frozen (SIGSTOP) since threads of OpenMP and MindSpore go on spinning for a while when they have
    nothing to do, at the expense of the other side. The usual cure, OMP_WAIT_POLICY=passive, would
    slow PyTorch's own steps down; frozen, each side keeps its defaults.

    Args:
        module: a module of this folder; its `start(**settings)` returns a `Take`.
        settings: what can be pickled.
    """

    def __init__(self, module: str, **settings: Any) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.module = module
        self.log = tempfile.NamedTemporaryFile("r", errors="replace", prefix=f"{module}-")  # noqa: SIM115
        self.pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(target=_serve, args=(theirs, self.log.name, module, settings))
        self.process.start()
        theirs.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()  # what is frozen obeys nothing less
        self.process.join()
        self.pipe.close()
        self.log.close()

    def ask(self, steps: int) -> Answer:
        """Thaw, let it take the steps, freeze.

        Raises RuntimeError with the last lines it printed when it has died or doesn't answer.
        """
        pid = self.process.pid
        assert pid is not None
        try:
            os.kill(pid, signal.SIGCONT)
            self.pipe.send(steps)
            if not self.pipe.poll(LIMIT_SECONDS):
                raise RuntimeError(f"{self.module}: no answer in {LIMIT_SECONDS:g} s{self._tail()}")
            answer: Answer = self.pipe.recv()
            os.kill(pid, signal.SIGSTOP)
            os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)  # until it has stopped
        except (EOFError, OSError):
            self.process.join(10)
            raise RuntimeError(
                f"{self.module}: ended with status {self.process.exitcode}{self._tail()}"
            ) from None
        return answer

    def _tail(self) -> str:
        return "; its last lines:\n" + "".join(self.log.readlines()[-10:])


def _serve(pipe: Connection, log: str, module: str, settings: dict[str, Any]) -> None:
    """The worker's side."""
    # In a group of its own the kernel ends it (SIGHUP), frozen or not, when its parent is killed
    os.setpgrp()
    with Path(log).open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ["OMP_NUM_THREADS"] = str(THREADS)
    take: Take = importlib.import_module(module).start(**settings)
    while True:
        try:
            steps = pipe.recv()
        except EOFError:
            return
        begin = time.perf_counter()
        losses = take(steps)
        seconds = time.perf_counter() - begin
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # in KiB on Linux
        pipe.send(Answer(seconds, losses, peak * 1024 / 1e6))
