"""A run's journal: the progress bar, metrics.jsonl and TensorBoard, all from the same numbers."""

import json
import math
import sys
import time
from pathlib import Path
from statistics import mean
from types import TracebackType
from typing import Any

from tensorboardX import SummaryWriter
from tqdm import tqdm

from sr_app.image.metrics import Score

METRICS = "metrics.jsonl"
RECORD_EVERY = 20
"""Steps whose mean makes one record."""


class Journal:
    """Tells of a run's steps and validations; use it in a `with`.

    metrics.jsonl has one JSON object a line: of RECORD_EVERY steps (`step`, the means `loss` and
    `norm` of those that were not skipped, `skipped`, `learning_rate`, `patches_per_second`,
    `data_wait`: the share of time spent waiting for data), or a validation (`step`, `psnr` in dB,
    `ssim`). Records past `start` are of steps that a continued run does again, and are dropped.

    Args:
        folder: the run's folder.
        start: steps done already.
        steps: steps in all.
        patches: patches in a step.
    """

    def __init__(self, folder: Path, start: int, steps: int, patches: int) -> None:
        path = folder / METRICS
        kept = [line for line in _lines(path) if json.loads(line)["step"] <= start]
        path.write_text("".join(kept))
        self._file = path.open("a", buffering=1)
        self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=start + 1)
        self._bar = tqdm(
            total=steps,
            initial=start,
            unit="step",
            dynamic_ncols=True,
            mininterval=0.5 if sys.stderr.isatty() else 20,
        )
        self._patches = patches
        self._steps = steps
        self._waited = 0.0
        self._began = time.perf_counter()
        self._recent: list[tuple[float, float]] = []
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
        self._board.close()
        self._file.close()

    def say(self, message: str) -> None:
        """A line on the screen, above the bar."""
        self._bar.write(message, file=sys.stderr)

    def step(self, step: int, loss: float, norm: float, rate: float, waited: float) -> None:
        """A step is done; `waited` seconds of it were for data."""
        self._count += 1
        if math.isfinite(loss + norm):
            self._recent.append((loss, norm))
        self._waited += waited
        self._bar.update()
        if step % RECORD_EVERY == 0 or step == self._steps:
            self._record(step, rate)

    def pause(self) -> None:
        """Time since the last record wasn't training: a validation or a save took place."""
        self._recent.clear()
        self._count = 0
        self._waited = 0.0
        self._began = time.perf_counter()

    def validation(self, step: int, score: Score) -> None:
        """A validation was taken after `step` steps."""
        self._write(step, "validation", {"psnr": score.psnr, "ssim": score.ssim})
        self.say(f"step {step}: validation {score.psnr:.2f} dB, SSIM {score.ssim:.4f}")

    def _record(self, step: int, rate: float) -> None:
        seconds = time.perf_counter() - self._began
        values = {
            "learning_rate": rate,
            "patches_per_second": self._count * self._patches / seconds,
            "data_wait": self._waited / seconds,
            "skipped": self._count - len(self._recent),
        }
        if self._recent:
            losses, norms = zip(*self._recent, strict=True)
            values["loss"], values["norm"] = mean(losses), mean(norms)
            self._bar.set_postfix_str(
                f"loss {values['loss']:.3f} norm {values['norm']:.1f} rate {rate:.1e} "
                f"{values['patches_per_second']:.1f} patches/s",
                refresh=False,
            )
        self._write(step, "training", values)
        self.pause()

    def _write(self, step: int, group: str, values: dict[str, Any]) -> None:
        self._file.write(json.dumps({"step": step, **values}) + "\n")
        for name, value in values.items():
            self._board.add_scalar(f"{group}/{name}", value, step)


def _lines(path: Path) -> list[str]:
    """The file's whole lines; one that a power cut has cut short is dropped."""
    if not path.exists():
        return []
    return [line for line in path.read_text().splitlines(keepends=True) if line.endswith("}\n")]
