"""Does the clip by the global norm keep runs from exploding: python benchmarks/clip.py [--quick].

Small EDSRs of several depths, residual scale 1 and 0.1, trained for a few hundred steps at rates that
rise until training fails, without a clip and with several norms; the same seeds and pictures. A run
*explodes* when its loss (the mean of 20 steps) rises above three times the least that it had been, when
a step isn't finite (it is then skipped), or when it is given up; it *fails* when it ends below
bicubic. The rate is constant, without a warm-up.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Any

import record
import trials
from trials import Outcome, Trial

RISE = 3.0
DEPTHS, RESIDUAL_SCALES = (8, 16, 32), (1.0, 0.1)
RATES = (1e-3, 4e-3, 8e-3, 1.6e-2)
NORMS: tuple[float | None, ...] = (None, 100.0, 10.0, 1.0)
FEATURES, STEPS = 16, 300
Key = tuple[int, float, float, float | None]
"""Depth, residual scale, rate, norm."""


def main() -> None:
    """Train, count, print, write."""
    parser = record.arguments(__doc__)
    trials.add_arguments(parser)
    parser.add_argument("--seeds", type=int, default=1, help="so many of each (1)")
    given = parser.parse_args()
    depths, rates, norms, steps = DEPTHS, RATES, NORMS, STEPS
    if given.quick:
        depths, rates, norms, steps = (2,), (1e-3, 1.0), (None, 10.0), 40
    keys = list(itertools.product(depths, RESIDUAL_SCALES, rates, norms))
    named = {
        (seed, key): trial(given, key, seed, steps)
        for seed in range(1, given.seeds + 1)
        for key in keys
    }
    outcomes = trials.run(list(named.values()), given, "clip")
    runs = {
        key: [outcomes[named[seed, key].name] for seed in range(1, given.seeds + 1)] for key in keys
    }
    print(len(runs))


def trial(given: argparse.Namespace, key: Key, seed: int, steps: int) -> Trial:
    """One training."""
    depth, residual_scale, rate, norm = key
    name = f"{depth}x{FEATURES}_residual{residual_scale:g}_rate{rate:g}_norm{norm}_seed{seed}"
    return Trial(
        name,
        trials.settings(
            given,
            steps=steps,
            seed=seed,
            network={"blocks": depth, "features": FEATURES, "residual_scale": residual_scale},
            batch={"size": 4, "patch": 16},
            optimizer={"learning_rate": rate, "clip_norm": norm},
            validation={"every": steps},
        ),
    )


def exploded(outcome: Outcome) -> bool:
    """See above."""
    if outcome["skipped"] or outcome["end"] != "done":
        return True
    least = math.inf
    for loss in outcome["losses"]:
        if loss > RISE * least:
            return True
        least = min(least, loss)
    return False


if __name__ == "__main__":
    main()
