"""Scores of a method on a benchmark set, by a named protocol."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from sr_app import origin
from sr_app.data.benchmarks import BenchmarkSet, Pair
from sr_app.data.cache import content_key
from sr_app.image.metrics import PROTOCOLS, Score
from sr_app.image.resize import imresize
from sr_app.inference.model import Enhance, to_uint8
from sr_app.nets import weights
from sr_app.nets.table import name_of
from sr_app.parallel.mesh import ALONE, Mesh

Upscale = Callable[[NDArray[np.uint8]], NDArray[np.uint8]]
"""RGB (h, w, 3) -> (scale * h, scale * w, 3), uint8."""


@dataclass(frozen=True)
class PictureScore:
    """A method's result on one picture, uint8 RGB, and its score."""

    result: NDArray[np.uint8]
    score: Score


@dataclass(frozen=True)
class SetScores:
    """Scores on one set by one protocol: picture name -> method name -> score."""

    name: str
    protocol: str
    pictures: dict[str, dict[str, Score]]

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods' names, in the order of tables."""
        return tuple(next(iter(self.pictures.values())))

    def mean(self, method: str) -> Score:
        """The mean of the pictures' scores, PSNR in dB (not of their errors), as tables have it."""
        return mean(scores[method] for scores in self.pictures.values())

    def as_dict(self) -> dict[str, Any]:
        """For JSON: set, protocol and what it means, means and each picture's scores."""
        return {
            "set": self.name,
            "protocol": self.protocol,
            "described": PROTOCOLS[self.protocol].description,
            "mean": {method: _as_json(self.mean(method)) for method in self.methods},
            "pictures": {
                name: {method: _as_json(score) for method, score in scores.items()}
                for name, scores in self.pictures.items()
            },
        }


def bicubic(scale: int) -> Upscale:
    """MATLAB's bicubic imresize to uint8: the field's baseline."""
    return lambda low: imresize(low, scale)


def network(enhance: Enhance) -> Upscale:
    """A network's float output, clamped and rounded to uint8 as every protocol asks for."""
    return lambda low: to_uint8(enhance(low.astype(np.float32)))


def score_pair(upscale: Upscale, pair: Pair, protocol: str, scale: int) -> PictureScore:
    """Enlarge one picture and score the result; `protocol` is a name in PROTOCOLS."""
    PROTOCOLS[protocol].require_size(pair.high, pair.name, scale)
    result = upscale(pair.low)
    return PictureScore(result, PROTOCOLS[protocol].score(result, pair.high, scale))


def score_set(
    pictures: BenchmarkSet,
    protocol: str,
    methods: dict[str, Upscale],
    look: Callable[[Pair, dict[str, PictureScore]], None] = lambda pair, scored: None,
    mesh: Mesh = ALONE,
) -> SetScores:
    """Score each method on each picture; `look` sees each picture's results before they go.

    The ranks of a mesh share the pictures, each is scored by one; the scores are on all.
    """

    def score(number: int) -> dict[str, Score]:
        pair = pictures[number]
        scored = {
            name: score_pair(upscale, pair, protocol, pictures.scale)
            for name, upscale in methods.items()
        }
        look(pair, scored)
        return {name: each.score for name, each in scored.items()}

    scores = mesh.spread(len(pictures), score)
    return SetScores(pictures.name, protocol, dict(zip(pictures.names, scores, strict=True)))


def record(
    command: str,
    checkpoint: Path | None,
    pictures: Sequence[BenchmarkSet],
    scores: Sequence[SetScores],
) -> dict[str, Any]:
    """For JSON: the scores on these sets, with what they depend on.

    command: as one would type it. checkpoint: the network's file; None for bicubic alone.
    """
    return {
        "command": command,
        **origin.origin(),
        "checkpoint": None if checkpoint is None else _described(checkpoint),
        "scale": pictures[0].scale,
        "sets": [
            {**scored.as_dict(), "key": content_key(each.pictures, each.scale)}
            for each, scored in zip(pictures, scores, strict=True)
        ],
    }


def _described(checkpoint: Path) -> dict[str, Any]:
    """A network's file: its content's digest, its shape, and its run's settings as text."""
    about = {"file": checkpoint.name, "sha256": origin.sha256(checkpoint)}
    if checkpoint.suffix != ".safetensors":  # exported: it holds no more
        return about
    read = weights.read(checkpoint)
    trained = {key: value for key, value in read.record.items() if key != "config"}
    return {
        **about,
        "network": {"name": name_of(read.config), **asdict(read.config)},
        "parameters": read.config.parameters,
        "config": yaml.safe_dump(read.record.get("config"), sort_keys=False),
        "trained": trained,
    }


def mean(scores: Iterable[Score]) -> Score:
    """The mean PSNR in dB and the mean SSIM of some pictures."""
    each = list(scores)
    return Score(
        float(np.mean([score.psnr for score in each])),
        float(np.mean([score.ssim for score in each])),
    )


def _as_json(score: Score) -> dict[str, float | None]:
    """JSON has no infinity: the PSNR of equal pictures is null."""
    return {"psnr": score.psnr if isfinite(score.psnr) else None, "ssim": score.ssim}
