"""The step on 8 to 1024 cards, on paper: python benchmarks/scaling.py.

An alpha-beta model (Thakur et al., 2005: a message of n bytes takes alpha + n / beta) with this
project's exact message sizes and operations and the hardware numbers below, which are assumed, not
measured. It is held next to the measurements of `ranks.py` first. Makes docs/scaling.md's tables.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from math import ceil, log2
from pathlib import Path
from typing import Any

import record

from sr_app.nets.description import STAGES, EDSRConfig

BYTES = 4  # of a float32
BUCKET = 32 * 2**20  # bytes, as parallel.bucket_mb has it
DOCUMENT = Path(__file__).parent.parent / "docs" / "scaling.md"
CARDS = (8, 16, 32, 64, 128, 256, 512, 1024)
NETWORKS = {
    "EDSR-baseline": EDSRConfig(),
    "EDSR": EDSRConfig(blocks=32, features=256, residual_scale=0.1),
}


@dataclass(frozen=True)
class Hardware:
    """Assumed: an accelerator of the class of Ascend 910B, eight in a server.

    Args:
        operations: float32 operations a second in convolutions (90e12 on paper, a third).
        near, far: bytes a second and card, within a server and between (25 GB/s, 80 %).
        near_alpha, far_alpha: seconds before the first byte.
        cards: in a server.
        launches: seconds of a step that don't shrink with the batch.
        patches: that a rank's loader thread makes a second (results/loader.json).
    """

    operations: float = 30e12
    near: float = 80e9
    far: float = 20e9
    near_alpha: float = 10e-6
    far_alpha: float = 30e-6
    cards: int = 8
    launches: float = 2e-3
    patches: float = 8_600


@dataclass(frozen=True)
class Step:
    """Seconds of the parts of one step; of `mean`, `hidden` passes during backward."""

    compute: float
    mean: float
    hidden: float
    tensor: float
    data: float

    @property
    def seconds(self) -> float:
        """While the tensor axis speaks all wait; patches are cut meanwhile."""
        return max(self.compute + self.tensor + self.mean - self.hidden, self.data)


def operations(config: EDSRConfig, patch: int) -> float:
    """Of forward and backward for one patch: 2 for each product and sum, 3 passes."""
    f, side = config.features, 1
    products = 9.0 * (3 * f + (2 * config.blocks + 1) * f * f)
    for factor in STAGES[config.scale]:
        products += 9.0 * f * f * factor**2 * side**2
        side *= factor
    products += 9.0 * f * 3 * side**2
    return 3 * 2 * products * patch**2


def all_reduce(size: float, ranks: int, alpha: float, beta: float) -> float:
    """A ring: every rank sends size / ranks 2 (ranks - 1) times; for small ones, a tree's depth."""
    if ranks == 1:
        return 0.0
    return 2 * log2(ranks) * alpha + 2 * (ranks - 1) / ranks * size / beta


def step(config: EDSRConfig, cards: int, tensor: int, batch: int, patch: int, on: Hardware) -> Step:
    """One step of `cards` cards, `tensor` of them sharing a network, with a global batch."""
    data = cards // tensor
    mine = batch / data
    split = 2 * config.blocks * 9 * config.features**2 / config.parameters
    size = config.parameters * BYTES * (1 - split + split / tensor)
    shared = split * operations(config, patch)  # nearly: the trunk's part of all operations
    compute = mine * (operations(config, patch) - shared * (1 - 1 / tensor)) / on.operations
    near = min(data, max(1, on.cards // tensor))
    mean = all_reduce(size, near, on.near_alpha, on.near)
    mean += all_reduce(size / near, data // near, on.far_alpha, on.far)
    message = mine * config.features * patch**2 * BYTES
    messages = 2 * config.blocks * all_reduce(message, tensor, on.near_alpha, on.near)
    buckets = ceil(size / BUCKET)
    behind = mean * (buckets - 1) / buckets if tensor == 1 else 0.0  # all but the last bucket
    hidden = min(behind, compute * 2 / 3)  # backward is two thirds
    return Step(compute + on.launches, mean, hidden, messages, mine / on.patches)


def scaling_table(name: str, patch: int = 48) -> str:
    """Patches a second, and next to as many single cards, when the batch grows with the cards."""
    config, on = NETWORKS[name], Hardware()
    rows = []
    for cards in CARDS:
        cells: list[object] = [cards]
        for share in (16, 4, 1):
            alone = share / step(config, 1, 1, share, patch, on).seconds
            rate = share * cards / step(config, cards, 1, share * cards, patch, on).seconds
            cells.append(f"{rate:,.0f} ({rate / alone / cards:.0%})")
        rows.append(cells)
    return markdown(["cards", "16 patches a card", "4 a card", "1 a card"], rows)


def strong_table(name: str, batch: int, patch: int = 48) -> str:
    """Milliseconds of a step when one batch is shared by more and more cards."""
    config, on = NETWORKS[name], Hardware()
    rows = []
    for cards in (1, 2, 4, 8, 16, 32, 64):
        cells: list[object] = [cards]
        for tensor in (1, 2, 4):
            fits = cards % tensor == 0 and batch % (cards // tensor) == 0
            taken = step(config, cards, tensor, batch, patch, on) if fits else None
            cells.append(f"{1000 * taken.seconds:.1f}" if taken else "-")
        rows.append(cells)
    return markdown(["cards", "tensor 1", "tensor 2", "tensor 4"], rows)


def check_table(measured: dict[str, Any]) -> str:
    """Measured step of N processes over one's, next to the model's with alpha and beta as measured.

    One process uses both cores, N share them, so the computing stays the same and the model says
    1 + mean / step.
    """
    alone = milliseconds(measured["1 process"], "step of EDSR-baseline")
    sizes = [config.parameters * BYTES for config in NETWORKS.values()]
    rows = []
    for ranks in (2, 4):
        world = measured[f"{ranks} processes"]
        small, large = (milliseconds(world, f"mean of {name}'s gradients") for name in NETWORKS)
        beta = (sizes[1] - sizes[0]) / (large - small) / 1e6
        found = milliseconds(world, "step of EDSR-baseline") / alone
        rows.append([ranks, f"{beta:.2f}", f"{1 + small / alone:.2f}", f"{found:.2f}"])
    return markdown(["processes", "GB/s of the mean", "step / one's, model", "measured"], rows)


def milliseconds(world: dict[str, Any], what: str) -> float:
    return float(world[what]["buckets"]["milliseconds"])


def markdown(head: list[str], rows: list[list[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def tables() -> dict[str, str]:
    """All tables of docs/scaling.md, by their names there."""
    measured = json.loads((record.RESULTS / "ranks.json").read_text())["figures"]
    return {
        "check": check_table(measured),
        "EDSR-baseline": scaling_table("EDSR-baseline"),
        "EDSR": scaling_table("EDSR"),
        "EDSR-baseline, batch 16": strong_table("EDSR-baseline", 16),
        "EDSR, batch 16": strong_table("EDSR", 16),
    }


def written(text: str) -> str:
    """The document with its tables made anew, each between its name and `end`."""
    for name, table in tables().items():
        head, mark, rest = text.partition(f"<!-- {name} -->\n")
        text = f"{head}{mark}{table}\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
    return text


def main() -> None:
    """Print the tables, or write them into the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"into {DOCUMENT.name}")
    if parser.parse_args().write:
        DOCUMENT.write_text(written(DOCUMENT.read_text()))
    else:
        print("\n\n".join(f"{name}\n{table}" for name, table in tables().items()))


if __name__ == "__main__":
    main()
