"""Does the clip by the global norm keep runs from exploding: python benchmarks/clip.py [--quick].

Small EDSRs of several depths, residual scale 1 and 0.1, trained for 300 steps at rates that rise
until training fails, without a clip and with several norms; the same seed and pictures for all. A
run *explodes* when its loss (the mean of 20 steps) rises above three times the least that it had
been, when a step isn't finite (it is then skipped), or when it is given up for that. The rate is
constant, without a warm-up.
"""

from __future__ import annotations

import argparse
import itertools
import math
from typing import Any

import record
import trials
from trials import Outcome, Trial

RISE = 3.0
DEPTHS: tuple[int, ...] = (8, 16)
RESIDUAL_SCALES = (1.0, 0.1)
RATES: tuple[float, ...] = (1e-3, 4e-3, 8e-3, 1.6e-2)
NORMS: tuple[float | None, ...] = (None, 100.0, 10.0, 1.0)
FEATURES, STEPS = 16, 300
Key = tuple[float, float, float | None, int]
"""Residual scale, rate, norm, depth."""


def main() -> None:
    """Train, count, print, write."""
    parser = record.arguments(__doc__)
    trials.add_arguments(parser)
    given = parser.parse_args()
    depths, rates, norms, steps = DEPTHS, RATES, NORMS, STEPS
    if given.quick:
        depths, rates, norms, steps = (2,), (1e-3, 1.0), (None, 10.0), 40
    keys = list(itertools.product(RESIDUAL_SCALES, rates, norms, depths))
    named = {key: trial(given, key, steps) for key in keys}
    outcomes = trials.run(list(named.values()), given, "clip")
    runs: dict[str, Any] = {}
    for key in keys:
        outcome = outcomes[named[key].name]
        runs[named[key].name] = {
            **dict(zip(("residual_scale", "rate", "norm", "depth"), key, strict=True)),
            "exploded": exploded(outcome),
            "skipped": outcome["skipped"],
            "psnr": outcome["curve"][-1][1] if outcome["end"] == "done" else None,
        }
    figures = {"bicubic": trials.bicubic(given), "runs": runs}
    print("\n" + record.table(*table(figures)))
    settings = {"features": FEATURES, "steps": steps, "batch": 4, "patch": 16, "rise": RISE}
    sets = {"data": given.data, "validation": given.validation}
    record.write(given, {**settings, **sets}, figures)


def table(figures: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Head and rows, for the screen and for README: the PSNR by depth, × for what exploded."""
    groups: dict[tuple[float, float], dict[float | None, list[dict[str, Any]]]] = {}
    for each in figures["runs"].values():
        group = groups.setdefault((each["residual_scale"], each["rate"]), {})
        group.setdefault(each["norm"], []).append(each)
    norms = list(next(iter(groups.values())))
    rows = [
        [f"{scale:g}", f"{rate:g}", *(" / ".join(map(told, group[norm])) for norm in norms)]
        for (scale, rate), group in groups.items()
    ]
    runs = figures["runs"].values()
    counted = []
    for norm in norms:
        of_norm = [each["exploded"] for each in runs if each["norm"] == norm]
        counted.append(f"{sum(of_norm)} of {len(of_norm)}")
    names = ["no clip" if norm is None else f"norm {norm:g}" for norm in norms]
    return ["residual scale", "rate", *names], [*rows, ["exploded", "", *counted]]


def told(run: dict[str, Any]) -> str:
    """The cell of a run."""
    psnr = "" if run["psnr"] is None else f"{run['psnr']:.1f}"
    return psnr + ("×" if run["exploded"] else "")


def trial(given: argparse.Namespace, key: Key, steps: int) -> Trial:
    """One training."""
    residual_scale, rate, norm, depth = key
    name = f"{depth}x{FEATURES}_residual{residual_scale:g}_rate{rate:g}_norm{norm}_seed1"
    return Trial(
        name,
        trials.settings(
            given,
            steps=steps,
            seed=1,
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
