"""A run's journal: the progress bar, metrics.jsonl and TensorBoard, all from the same numbers."""

import json
import os
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from statistics import mean
from types import TracebackType
from typing import Any

from tqdm import tqdm

from sr_app.atomic import replacing
from sr_app.errors import TrainingError
from sr_app.image.metrics import Score
from sr_app.training.progress import Taken

METRICS = "metrics.jsonl"
RECORD_EVERY = 20
"""Steps whose mean makes one record."""
TELL_SECONDS = 20
"""Between two lines on a screen that is no terminal."""


class Journal:
    """Tells of a run's steps and validations; use it in a `with`.

    metrics.jsonl has one JSON object a line: of RECORD_EVERY steps (`step`, the means `loss` and
    `norm` of those that were not skipped, `skipped`, `learning_rate`, `patches_per_second`,
    `data_wait`: the share of time spent waiting for data), a validation (`step`, `psnr` in dB,
    `ssim`), or a step that went bad (`step`, `trouble`, `files`). Records past `start` are of steps
    that a continued run does again, and are dropped; `recent` fills the record that was not full
    yet, so that there is each step once, as if the run had not been stopped.

    Args:
        folder: the run's folder.
        start: steps done already.
        steps: steps in all.
        patches: patches in a step.
        recent: the last steps before `start`.
    """

    def __init__(
        self, folder: Path, start: int, steps: int, patches: int, recent: Sequence[Taken] = ()
    ) -> None:
        path = folder / METRICS
        try:
            kept = _lines_up_to(start, path)
            with replacing(path) as temporary:
                temporary.write_text("".join(kept))
            with ExitStack() as undo:
                self._file = undo.enter_context(path.open("a", buffering=1))
                self._board = _Board(folder / "tensorboard", start + 1)
                undo.pop_all()
        except OSError as error:
            raise TrainingError(f"{path}: can't be written: {error.strerror}") from error
        self._bar = tqdm(total=steps, initial=start, unit="step", dynamic_ncols=True, disable=None)
        self._patches = patches
        self._steps = steps
        self._waited = 0.0
        self._began = self._told = time.perf_counter()
        open_record = start - max(_last_record(kept), start - start % RECORD_EVERY)
        self._recent = list(recent[len(recent) - open_record :]) if open_record else []
        self._count = 0

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.close()
        for each in (self._board, self._file):
            with suppress(OSError):  # a full disk has been told already, by what could not be saved
                each.close()

    def say(self, message: str) -> None:
        """A line on the screen, above the bar."""
        tqdm.write(message, file=sys.stderr)

    def step(self, step: int, taken: Taken, rate: float, waited: float) -> None:
        """A step is done; `waited` seconds of it were for data."""
        self._count += 1
        self._recent.append(taken)
        self._waited += waited
        self._bar.update()
        if step % RECORD_EVERY == 0 or step == self._steps:
            self._record(step, rate)

    @contextmanager
    def pausing(self) -> Iterator[None]:
        """Within, time doesn't count as training: a validation or a save takes place."""
        paused = time.perf_counter()
        yield
        self._began += time.perf_counter() - paused

    def validation(self, step: int, score: Score, protocol: str) -> None:
        """A validation was taken after `step` steps."""
        self._write(step, "validation", {"psnr": score.psnr, "ssim": score.ssim})
        self.say(f"step {step}: validation {score.psnr:.2f} dB, SSIM {score.ssim:.4f} ({protocol})")

    def trouble(self, step: int, what: str, files: Sequence[str]) -> None:
        """Something went bad in a step, on pictures from these files."""
        self._write(step, "trouble", {"trouble": what, "files": list(files)})
        self.say(f"step {step}: {what}; pictures: {', '.join(files)}")

    def secure(self) -> None:
        """All records are on the disk, before a state that relies on them."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise TrainingError(f"the journal can't be written: {error.strerror}") from error

    def _record(self, step: int, rate: float) -> None:
        seconds = time.perf_counter() - self._began
        values = {
            "learning_rate": rate,
            "patches_per_second": self._count * self._patches / seconds,
            "data_wait": self._waited / seconds,
            "skipped": sum(not taken.updated for taken in self._recent),
        }
        counted = [taken for taken in self._recent if taken.updated]
        if counted:
            values["loss"] = mean(taken.loss for taken in counted)
            values["norm"] = mean(taken.norm for taken in counted)
            self._tell(
                step,
                f"loss {values['loss']:.3f} norm {values['norm']:.1f} rate {rate:.1e} "
                f"{values['patches_per_second']:.1f} patches/s",
            )
        self._write(step, "training", values)
        self._recent.clear()
        self._count, self._waited = 0, 0.0
        self._began = time.perf_counter()

    def _tell(self, step: int, numbers: str) -> None:
        """At the bar's end; without a terminal, which has no bar, in a line now and then."""
        if not self._bar.disable:
            self._bar.set_postfix_str(numbers, refresh=False)
        elif time.perf_counter() - self._told > TELL_SECONDS:
            self._told = time.perf_counter()
            self.say(f"step {step} of {self._steps}: {numbers}")

    def _write(self, step: int, group: str, values: dict[str, Any]) -> None:
        try:
            self._file.write(json.dumps({"step": step, **values}) + "\n")
            self._board.write(step, group, values)
        except OSError as error:
            raise TrainingError(f"the journal can't be written: {error.strerror}") from error


class NoJournal:
    """Of the ranks but the first: says and writes nothing."""

    def __enter__(self) -> "NoJournal":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def say(self, message: str) -> None:
        pass

    def step(self, step: int, taken: Taken, rate: float, waited: float) -> None:
        pass

    def trouble(self, step: int, what: str, files: Sequence[str]) -> None:
        pass

    def secure(self) -> None:
        pass

    def pausing(self) -> AbstractContextManager[None]:
        return nullcontext()

    def validation(self, step: int, score: Score, protocol: str) -> None:
        pass


class _Board:
    """TensorBoard's file: tensorboardX's events, written by ourselves.

    Its own writer has a thread, which dies of a full disk; the run would then hang on its full
    queue. And it waits for the disk at each flush.

    Args:
        folder: for the file.
        start: what the board shows of this step and later ones is from before, and dropped.
    """

    def __init__(self, folder: Path, start: int) -> None:
        # Not at the import: it imports PyTorch where that is installed, which takes 190 MB.
        from tensorboardX.proto.event_pb2 import Event, SessionLog
        from tensorboardX.record_writer import masked_crc32c
        from tensorboardX.summary import scalar

        self._event, self._scalar, self._checksum = Event, scalar, masked_crc32c
        folder.mkdir(exist_ok=True)
        self._file = (folder / f"events.out.tfevents.{time.time_ns()}").open("ab")
        self._add(step=0, file_version="brain.Event:2")
        self._add(step=start, session_log=SessionLog(status=SessionLog.START))

    def write(self, step: int, group: str, values: dict[str, Any]) -> None:
        """Those of the values that are numbers."""
        for name, value in values.items():
            if isinstance(value, int | float):
                self._add(step=step, summary=self._scalar(f"{group}/{name}", value))
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _add(self, **content: Any) -> None:
        """An event as a record: its length and its bytes, each with a checksum (TFRecord)."""
        event: bytes = self._event(wall_time=time.time(), **content).SerializeToString()
        length = struct.pack("<Q", len(event))
        for part in (length, event):
            self._file.write(part + struct.pack("<I", self._checksum(part)))


def _last_record(lines: Sequence[str]) -> int:
    """The step of the last record of training; 0 without one."""
    steps = [record["step"] for record in map(json.loads, lines) if "skipped" in record]
    return int(steps[-1]) if steps else 0


def _lines_up_to(start: int, path: Path) -> list[str]:
    """The lines of steps up to `start`; what a power cut or an editor has broken is dropped."""
    if not path.exists():
        return []
    kept = []
    for line in path.read_text(errors="replace").splitlines():
        with suppress(ValueError, TypeError, KeyError):
            if json.loads(line)["step"] <= start:
                kept.append(f"{line}\n")
    return kept
