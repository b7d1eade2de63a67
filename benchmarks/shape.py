"""Which shape the light network should have: python benchmarks/shape.py [--quick].

EDSRs x2 of several blocks x features, each trained for the same processor time with one thread (a
short trial before tells how many steps that is); validation PSNR next to the processor time that a
picture takes. docs/light_network.md draws the conclusion.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import numpy as np
import record
import trials
from case import multiply_adds
from trials import Outcome, Trial

SHAPES = ((8, 32), (4, 32), (16, 32), (8, 48), (16, 16), (4, 64))
BUDGET = 120.0  # seconds
SIDE, ROUNDS = 256, 7
SHORT = 60  # steps of a trial that only takes the time
Shape = tuple[int, int]


def main() -> None:
    """Train, measure, print, write."""
    parser = record.arguments(__doc__)
    trials.add_arguments(parser)
    given = parser.parse_args()
    shapes: tuple[Shape, ...] = ((1, 4), (2, 8)) if given.quick else SHAPES
    budget = 1.0 if given.quick else BUDGET

    short = {shape: trial(given, shape, SHORT, "time") for shape in shapes}
    times = trials.run(list(short.values()), given, "shape")
    named = {}
    for shape in shapes:
        steps = round(budget / times[short[shape].name]["seconds_a_step"])
        named[shape] = trial(given, shape, steps, f"{budget:g}s")
    outcomes = trials.run(list(named.values()), given, "shape")
    seconds = picture_seconds(shapes, 64 if given.quick else SIDE)
    figures = {
        f"{blocks} x {features}": {
            "multiply_adds": multiply_adds(blocks, features, scale=2),
            "milliseconds": 1000 * seconds[blocks, features],
            **trained(named[blocks, features], outcomes),
        }
        for blocks, features in shapes
    }
    settings = {"side": SIDE, "bicubic": trials.bicubic(given), "batch": 4, "patch": 24}
    settings |= {"seconds": budget, "data": given.data, "validation": given.validation}
    print("\n" + record.table(*table({"settings": settings, "figures": figures})))
    record.write(given, settings, figures)


def trial(given: argparse.Namespace, shape: Shape, steps: int, what: str) -> Trial:
    """One training."""
    blocks, features = shape
    return Trial(
        f"{blocks}x{features}_{what}",
        trials.settings(
            given,
            steps=steps,
            network={"blocks": blocks, "features": features},
            batch={"size": 4, "patch": 24},
            optimizer={
                "learning_rate": 1e-3,
                "schedule": "cosine",
                "warm_up": min(100, steps // 10),
                "clip_norm": 50.0,
            },
            validation={"every": math.ceil(steps / 4)},
        ),
    )


def trained(trial: Trial, outcomes: dict[str, Outcome]) -> dict[str, float]:
    """Steps, seconds that they took after all, and the PSNR at the end."""
    outcome, steps = outcomes[trial.name], trial.settings["steps"]
    seconds = steps * outcome["seconds_a_step"]
    return {"steps": steps, "seconds": seconds, "psnr": outcome["curve"][-1][1]}


def picture_seconds(shapes: tuple[Shape, ...], side: int) -> dict[Shape, float]:
    """Processor seconds of a picture through each, one thread: the best of turns taken about."""
    from sr_app.inference.model import Model
    from sr_app.nets.description import EDSRConfig
    from sr_app.nets.table import make
    from sr_app.nets.weights import gather

    low = np.random.default_rng(0).uniform(0, 255, (side, side, 3)).astype(np.float32)
    best = {}
    models = {}
    for shape in shapes:
        config = EDSRConfig(blocks=shape[0], features=shape[1])
        models[shape] = Model(config, gather(make(config)), "shape")
        models[shape].enhance(low, tile=side)  # compiles
        best[shape] = math.inf
    for _ in range(ROUNDS):
        for shape, model in models.items():
            begin = time.process_time()
            model.enhance(low, tile=side)
            best[shape] = min(best[shape], time.process_time() - begin)
    return best


def table(found: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Head and rows, for the screen and for docs/light_network.md."""
    figures, bicubic = found["figures"], found["settings"]["bicubic"]
    head = ["blocks x features", "multiply-adds", "ms", "steps", "seconds", "dB"]
    rows = []
    for name, figure in figures.items():
        gain = 1000 * (figure["psnr"] - bicubic) / figure["milliseconds"]
        rows.append(
            [
                name,
                f"{figure['multiply_adds'] / 1e9:.1f} G",
                f"{figure['milliseconds']:.0f}",
                f"{figure['steps']}",
                f"{figure['seconds']:.0f}",
                f"{figure['psnr']:.2f}",
                f"{gain:.1f}",
            ]
        )
    return [*head, "mdB above bicubic / ms"], rows


if __name__ == "__main__":
    main()
