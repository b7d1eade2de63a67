"""What the leaking gradient does for training: python benchmarks/leak.py [--quick].

The same small EDSR, pictures, order, seeds and steps, with a plain ReLU and with LeakyGradReLU of
several leaks; then plain against a leak of 0.01 at other depths, widths and rates. Validation PSNR
by step and by processor time, steps to a given PSNR, units that are dead at the end. The rate is
constant after its warm-up, so that a step's PSNR doesn't depend on where the run ends.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from typing import Any

import record
import trials
from trials import Outcome, Trial

PLAIN = 0.0
LEAKS = (PLAIN, 0.001, 0.01, 0.05, 0.1)
OURS = 0.01
BASE: dict[str, Any] = {"blocks": 8, "features": 16, "rate": 1e-3}
OTHERS: list[dict[str, Any]] = [
    {"rate": 5e-3},
    {"rate": 2e-4},
    {"blocks": 2},
    {"blocks": 16},
    {"features": 8},
    {"features": 32},
]


def main() -> None:
    """Train, measure, print, write."""
    parser = record.arguments(__doc__)
    trials.add_arguments(parser)
    parser.add_argument("--seeds", type=int, default=3, help="so many of each (3)")
    parser.add_argument("--steps", type=int, default=1500, help="of each (1500)")
    given = parser.parse_args()
    if given.quick:
        given.seeds, given.steps = 1, 40
    cases = [(BASE, LEAKS)]
    others = OTHERS[:1] if given.quick else OTHERS
    cases += [({**BASE, **change}, (PLAIN, OURS)) for change in others]
    named = {
        (name_of(case), leak): [
            trial(given, case, leak, seed) for seed in range(1, given.seeds + 1)
        ]
        for case, leaks in cases
        for leak in leaks
    }
    outcomes = trials.run([each for group in named.values() for each in group], given, "leak")
    groups = {key: [outcomes[each.name] for each in group] for key, group in named.items()}
    print(groups.keys())


def name_of(case: dict[str, Any]) -> str:
    """A case in words."""
    return f"{case['blocks']} x {case['features']}, rate {case['rate']:g}"


def trial(given: argparse.Namespace, case: dict[str, Any], leak: float, seed: int) -> Trial:
    """One training."""
    plain = leak == PLAIN
    network = {"blocks": case["blocks"], "features": case["features"]}
    network |= {"activation": "relu"} if plain else {"slope": leak}
    changed = trials.settings(
        given,
        steps=given.steps,
        seed=seed,
        network=network,
        batch={"size": 4, "patch": 24},
        optimizer={
            "learning_rate": case["rate"],
            "warm_up": min(100, given.steps // 4),
            "clip_norm": 50.0,
        },
        validation={"every": given.steps // 15},
    )
    name = f"{case['blocks']}x{case['features']}_rate{case['rate']:g}_leak{leak:g}_seed{seed}"
    return Trial(name, changed)


if __name__ == "__main__":
    main()
