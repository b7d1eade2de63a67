"""Many small trainings, each by the project's own loop: several at once, one thread each, and each
kept in a folder, so that a script that was stopped goes on with those that are missing."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jsonargparse import ArgumentParser
from tqdm import tqdm

from sr_app import threads
from sr_app.atomic import replacing
from sr_app.image.resize import imresize
from sr_app.places import cache_folder

if TYPE_CHECKING:  # it loads MindSpore, which the scripts' own process doesn't need
    from sr_app.inference.model import Model
    from sr_app.training.config import RunConfig

OUTCOME, LOG = "outcome.json", "log.txt"
STOPPED = 130
MIDDLE = 240  # side of the piece of a validation picture: divisible by 2, 3, 4

Outcome = dict[str, Any]
"""`end`: "done", or why the run ended before; `curve`: [step, PSNR in dB] of each validation;
`seconds_a_step` of processor time; `losses`, `norms`, `skipped` of the journal's records, in order;
`dead`: the share of a block's units that are off at all pixels of the validation pictures."""


@dataclass(frozen=True)
class Trial:
    """A training: its name, which is its folder's, and its settings (of `RunConfig`, as a tree)."""

    name: str
    settings: dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words that all scripts with trials take."""
    parser.add_argument("--data", default="sample", help="the training set (sample)")
    parser.add_argument("--validation", default="sample", help="the set to validate on (sample)")
    parser.add_argument("--runs", type=Path, help="folder of the trainings (in the cache folder)")
    parser.add_argument(
        "--together", type=int, default=threads.cores(), help="trainings at once (one a core)"
    )


def run(trials: Sequence[Trial], given: argparse.Namespace, script: str) -> dict[str, Outcome]:
    """The outcome of each trial by name; those that are in the folder aren't run again."""
    size = "quick" if given.quick else "full"
    folder = given.runs or cache_folder() / "trials" / f"{script}_{size}"
    outcomes = {trial.name: found for trial in trials if (found := _finished(trial, folder))}
    missing = [trial for trial in trials if trial.name not in outcomes]
    print(f"{len(trials)} trainings, {len(outcomes)} of them in {folder} already", flush=True)
    os.environ["SR_THREADS"] = "1"
    with (
        tqdm(total=len(trials), initial=len(outcomes), unit="training", mininterval=10) as bar,
        ProcessPoolExecutor(given.together, multiprocessing.get_context("spawn")) as pool,
    ):
        futures = {pool.submit(_run, trial, folder): trial.name for trial in missing}
        try:
            for future in as_completed(futures):
                outcomes[futures[future]] = future.result()
                bar.update()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return {trial.name: outcomes[trial.name] for trial in trials}


def settings(given: argparse.Namespace, **changed: Any) -> dict[str, Any]:
    """Settings of a small run: what the script wants changed, and what it was given."""
    validation = {"data": given.validation, "protocol": "benchmark", "pictures": 5}
    return {
        "data": given.data,
        "average": 0.99,  # short runs: a longer one would lag behind
        "save_minutes": 60.0,
        **changed,
        "validation": {**validation, **changed.get("validation", {})},
    }


def bicubic(given: argparse.Namespace) -> float:
    """The PSNR in dB of bicubic x2 on the validation pictures."""
    from sr_app.inference import evaluate

    chosen = settings(given)["validation"]
    pairs = _pairs(chosen["data"], 2, chosen["pictures"])
    method = evaluate.bicubic(2)
    scores = [evaluate.score_pair(method, pair, chosen["protocol"], 2).score for pair in pairs]
    return evaluate.mean(scores).psnr


def config_of(tree: dict[str, Any]) -> RunConfig:
    """The settings that a tree such as a file in configs/ holds."""
    from sr_app.training.config import RunConfig

    parser = ArgumentParser()
    parser.add_class_arguments(RunConfig, "run")
    config: RunConfig = parser.instantiate(parser.parse_object({"run": tree})).run
    return config


def _finished(trial: Trial, folder: Path) -> Outcome | None:
    """What is kept of a trial with these settings."""
    file = folder / trial.name / OUTCOME
    if not file.exists():
        return None
    kept = json.loads(file.read_text())
    if kept["settings"] != json.loads(json.dumps(trial.settings)):
        sys.exit(f"error: {file} is of other settings; delete {folder}, or give --runs another")
    outcome: Outcome = kept["outcome"]
    return outcome


def _run(trial: Trial, folder: Path) -> Outcome:
    """Train in a process of its own, from the start, and keep the outcome."""
    place = folder / trial.name
    shutil.rmtree(place, ignore_errors=True)  # of one that was stopped
    place.mkdir(parents=True)
    with (place / LOG).open("a") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    outcome = _train(trial, place)
    with replacing(place / OUTCOME) as temporary:
        temporary.write_text(json.dumps({"settings": trial.settings, "outcome": outcome}))
    return outcome


def _train(trial: Trial, place: Path) -> Outcome:
    from sr_app.data.cache import open_cache
    from sr_app.data.folders import find
    from sr_app.errors import TrainingError
    from sr_app.image.metrics import Score
    from sr_app.inference import evaluate
    from sr_app.inference.model import Model
    from sr_app.nets.table import make
    from sr_app.nets.weights import Arrays, gather
    from sr_app.training.loop import train

    config = config_of(trial.settings)
    scale, protocol = config.network.scale, config.validation.protocol
    pairs = _pairs(config.validation.data, scale, config.validation.pictures)
    model = Model(config.network, gather(make(config.network)), "validation")
    upscale = evaluate.network(model.enhance)
    parent = os.getppid()
    clock: list[tuple[float, float]] = []
    scores: list[float] = []

    def validate(arrays: Arrays) -> Score:
        if os.getppid() != parent:
            os._exit(STOPPED)  # nobody waits for it any more
        began = time.process_time()
        model.fill(arrays)
        each = [evaluate.score_pair(upscale, pair, protocol, scale).score for pair in pairs]
        score = evaluate.mean(each)
        scores.append(score.psnr)
        clock.append((began, time.process_time()))
        return score

    pixels = open_cache(find(config.data, scale, "train"), scale)
    end = "done"
    try:
        progress = train(config, place, pixels, validate, print)
        if progress.step < config.steps:
            os._exit(STOPPED)  # asked to stop: an exception would only end this trial
    except TrainingError as error:
        end = str(error)
    records = [json.loads(line) for line in (place / "metrics.jsonl").read_text().splitlines()]
    steps = [record for record in records if "skipped" in record]
    validated = [record["step"] for record in records if "psnr" in record]
    between = sum(after[0] - before[1] for before, after in pairwise(clock))
    return {
        "end": end,
        "curve": list(zip(validated, scores, strict=False)),
        "seconds_a_step": between / (validated[-1] - validated[0]) if len(validated) > 1 else None,
        "losses": [record.get("loss") for record in steps],
        "norms": [record.get("norm") for record in steps],
        "skipped": sum(record["skipped"] for record in steps),
        "dead": dead_units(model, pairs) if end == "done" else None,
    }


@cache
def _pairs(data: str, scale: int, pictures: int) -> list[Any]:
    """The middle of each validation picture, decoded once in each process."""
    from sr_app.data.benchmarks import Pair, load

    def middle(pixels: Any, side: int) -> Any:
        top, left = ((length - side) // 2 // scale * scale for length in pixels.shape[:2])
        return pixels[top : top + side, left : left + side]

    return [
        Pair(pair.name, imresize(middle(pair.high, MIDDLE), 1 / scale), middle(pair.high, MIDDLE))
        for pair in load(data, scale, pictures)
    ]


def dead_units(model: Model, pairs: Sequence[Any]) -> list[float]:
    """The share of each block's units that are above zero at no pixel of the (low) pictures."""
    from sr_app.inference.inspect import tapped

    highest: dict[str, Any] = {}
    with tapped(model, ["trunk.blocks.*.activation"]) as taps:
        for pair in pairs:
            model.enhance(pair.low.astype(np.float32), tile=MIDDLE)  # all of it at once
            for name, features in taps.features.items():
                seen = features.max((0, 2, 3))
                highest[name] = np.maximum(highest.get(name, seen), seen)
    return [float((each <= 0).mean()) for each in highest.values()]
