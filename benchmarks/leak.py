"""What the leaking gradient does for training: python benchmarks/leak.py [--quick].

The same small EDSR, pictures, order, seeds and steps, with a plain ReLU and with LeakyGradReLU of
several leaks; then plain against a leak of 0.01 at another rate, and wider and longer. Validation
PSNR by step, processor time of a step, steps to the PSNR that the plain ones reach early and
halfway, units that are dead at the end. The rate is constant after its warm-up: so the PSNR at a
step does not depend on where the run ends. Seeds are paired: the same one begins with the same
weights.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
import record
import trials
from trials import Outcome, Trial

PLAIN = 0.0
LEAKS = (PLAIN, 0.001, 0.01, 0.05, 0.1)
OURS = 0.01
BASE: dict[str, Any] = {"blocks": 8, "features": 16, "rate": 1e-3, "steps": 1500}
OTHERS: list[dict[str, Any]] = [{"rate": 5e-3}, {"features": 32, "steps": 3000}]
VALIDATIONS = 15
EARLY, HALFWAY = 0.2, 0.5  # of the steps: whose PSNR is to be reached
Runs = list[Outcome]
"""Of a case and a leak, by seed."""


def main() -> None:
    """Train, measure, print, write."""
    parser = record.arguments(__doc__)
    trials.add_arguments(parser)
    parser.add_argument("--seeds", type=int, default=3, help="so many of each (3)")
    given = parser.parse_args()
    base, others = BASE, OTHERS
    if given.quick:
        given.seeds, base, others = 1, {**BASE, "steps": 45}, OTHERS[:1]
    named = {
        (name_of(case), leak): [
            trial(given, case, leak, seed) for seed in range(1, given.seeds + 1)
        ]
        for case in (base, *({**base, **change} for change in others))
        for leak in (LEAKS if case == base else (PLAIN, OURS))
    }
    outcomes = trials.run([each for group in named.values() for each in group], given, "leak")
    figures: dict[str, dict[str, Any]] = {}
    for (case, leak), group in named.items():
        runs = [outcomes[each.name] for each in group]
        plain = [outcomes[each.name] for each in named[case, PLAIN]]
        figures.setdefault(case, {})[f"{leak:g}"] = summary(runs, plain)
    print("\n" + record.table(*table(figures)))
    settings = {"seeds": given.seeds, "batch": 4, "patch": 24}
    sets = {"data": given.data, "validation": given.validation}
    record.write(given, {**settings, **sets}, figures)


def summary(runs: Runs, plain: Runs) -> dict[str, Any]:
    """Figures of a leak, by seed where they are lists; those of `plain` are what it is held to.

    `early` and `halfway` are steps, as a share of the plain one's with the same seed.
    """
    steps = [step for step, _ in plain[0]["curve"]]
    curves = np.array([[psnr for _, psnr in run["curve"]] for run in runs])
    usual = np.array([[psnr for _, psnr in run["curve"]] for run in plain])
    figures: dict[str, Any] = {
        "steps": steps,
        "psnr": curves.tolist(),
        "seconds_a_step": [run["seconds_a_step"] for run in runs],
        "dead": np.mean([run["dead"] for run in runs], axis=0).tolist(),
    }
    for name, share in (("early", EARLY), ("halfway", HALFWAY)):
        wanted = float(usual.mean(axis=0)[round(share * len(steps)) - 1])
        figures[name] = {
            "psnr": wanted,
            "steps_over_plain": [
                reached(steps, mine, wanted) / reached(steps, theirs, wanted)
                for mine, theirs in zip(curves, usual, strict=True)
            ],
        }
    return figures


def reached(steps: Sequence[int], curve: Sequence[float], wanted: float) -> float:
    """The step at which a curve first gets to a PSNR, between validations along a straight line;
    the last one for a curve that doesn't."""
    before, low = 0, 0.0
    for step, psnr in zip(steps, curve, strict=True):
        if psnr >= wanted:
            return before + (step - before) * (wanted - low) / (psnr - low)
        before, low = step, psnr
    return float(steps[-1])


def table(figures: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Head and rows, for the screen and for README."""
    head = ["network, rate", "leak", "dB at the end", "steps to early dB", "steps to halfway dB"]
    rows = []
    for case, leaks in figures.items():
        for leak, each in leaks.items():
            last = np.array(each["psnr"])[:, -1]
            rows.append(
                [
                    case,
                    "none" if float(leak) == PLAIN else leak,
                    f"{last.mean():.2f} ± {last.std():.2f}",
                    *(shares(each[when]["steps_over_plain"]) for when in ("early", "halfway")),
                    f"{1000 * min(each['seconds_a_step']):.1f}",
                    f"{100 * statistics.mean(each['dead']):.1f} %",
                ]
            )
    return [*head, "ms a step", "dead units"], rows


def shares(each: Sequence[float]) -> str:
    """The mean change in percent, and the range over seeds."""
    percent = [100 * (share - 1) for share in each]
    if not any(percent):
        return ""
    return f"{statistics.mean(percent):+.0f} % ({min(percent):+.0f} to {max(percent):+.0f})"


def name_of(case: dict[str, Any]) -> str:
    """A case in words."""
    return f"{case['blocks']} x {case['features']}, rate {case['rate']:g}"


def trial(given: argparse.Namespace, case: dict[str, Any], leak: float, seed: int) -> Trial:
    """One training."""
    plain, steps = leak == PLAIN, case["steps"]
    network = {"blocks": case["blocks"], "features": case["features"]}
    network |= {"activation": "relu"} if plain else {"slope": leak}
    changed = trials.settings(
        given,
        steps=steps,
        seed=seed,
        network=network,
        batch={"size": 4, "patch": 24},
        optimizer={
            "learning_rate": case["rate"],
            "warm_up": min(100, steps // 4),
            "clip_norm": 50.0,
        },
        validation={"every": steps // VALIDATIONS},
    )
    name = f"{case['blocks']}x{case['features']}_rate{case['rate']:g}_leak{leak:g}_seed{seed}"
    return Trial(name, changed)


if __name__ == "__main__":
    main()
