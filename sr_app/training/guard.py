"""What a run says and keeps when its numbers or its disk go bad."""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sr_app.atomic import replacing
from sr_app.data.cache import PixelCache
from sr_app.data.patches import Crop, batch, crops
from sr_app.errors import PictureError
from sr_app.image import files
from sr_app.image.picture import Picture
from sr_app.training.config import GuardConfig, RunConfig
from sr_app.training.progress import Progress, Taken

BAD_BATCH = "bad_batch"
MOST_NAMES = 5
MB = 1e6


def spike_limit(guard: GuardConfig, progress: Progress) -> float:
    """The loss from which on a step is a spike, as float32 has it; infinite where none is."""
    usual = progress.usual_loss()
    if guard.spike is None or usual is None:
        return math.inf
    return float(np.float32(guard.spike * usual))


def trouble_of(taken: Taken, limit: float) -> str | None:
    """What is wrong with a step, in words; None if nothing is."""
    left_out = "" if taken.updated else "; left out"
    if not taken.finite:
        return f"loss {taken.loss:.4g}, norm {taken.norm:.4g}{left_out}"
    if taken.loss > limit:
        return f"spike: loss {taken.loss:.4g} is over {limit:.4g}{left_out}"
    return None


def chosen_crops(cache: PixelCache, config: RunConfig, step: int) -> tuple[Crop, ...]:
    """Where the batch of step number `step` (from 1) was cut from, over all ranks."""
    size, patch = config.batch.size, config.batch.patch
    return crops(cache, seed=config.seed, step=step - 1, batch_size=size, patch=patch)


def files_of(cache: PixelCache, config: RunConfig, step: int) -> list[str]:
    """The pictures from which the batch of a step was cut."""
    return sorted({cache.names[crop.picture] for crop in chosen_crops(cache, config, step)})


def listed(names: list[str]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def keep_batch(
    folder: Path, cache: PixelCache, config: RunConfig, progress: Progress, rate: float
) -> str:
    """Write the batch of the last step to `folder`/bad_batch, to look at; says where it is.

    The pictures are the patches as the network saw them, low and high; batch.json says of each
    from which picture it was cut, where, and how it was turned.
    """
    place, step = folder / BAD_BATCH, progress.step
    size, patch = config.batch.size, config.batch.patch
    low, high = batch(cache, seed=config.seed, step=step - 1, batch_size=size, patch=patch)
    patches = [
        {"file": cache.names[crop.picture], **asdict(crop)}
        for crop in chosen_crops(cache, config, step)
    ]
    about: dict[str, Any] = {
        "step": step,
        "learning_rate": rate,
        "last_losses": [repr(taken.loss) for taken in progress.recent[-config.guard.most_skips :]],
        "last_norms": [repr(taken.norm) for taken in progress.recent[-config.guard.most_skips :]],
        "patches": patches,
    }
    try:
        if place.exists():
            shutil.rmtree(place)  # of an earlier end
        place.mkdir()
        for number in range(size):
            for name, pixels in (("low", low[number]), ("high", high[number])):
                files.write(place / f"{number:03}_{name}.png", _picture(pixels))
        with replacing(place / "batch.json") as temporary:
            temporary.write_text(json.dumps(about, indent=1))
    except (OSError, PictureError) as error:
        return f"the batch could not be written to {place} ({error})"
    return f"the batch is in {place}"


def _picture(pixels: NDArray[np.float32]) -> Picture:
    """(3, h, w), whole numbers in 0..255 -> a picture."""
    return Picture(np.ascontiguousarray(pixels.astype(np.uint8).transpose(1, 2, 0)))


class LowDisk:
    """Warns, once, when a folder's disk may soon be too full for a save.

    Args:
        folder: where saves go.
        needed: bytes that a save takes while the old one is still there.
        say: is told.
    """

    def __init__(self, folder: Path, needed: int, say: Callable[[str], None]) -> None:
        self.folder, self.needed, self.say = folder, needed, say
        self.low = False

    def look(self) -> None:
        """Look at what is free now."""
        free = shutil.disk_usage(self.folder).free if self.folder.exists() else math.inf
        low = free < 2 * self.needed
        if low and not self.low:
            self.say(
                f"low disk: {free / MB:.0f} MB are free in {self.folder}, and a save takes "
                f"{self.needed / MB:.0f} MB; free some, or the next saves fail"
            )
        self.low = low
