"""The documents' tables, made from results/: python benchmarks/tables.py [--write].

Each stands between its mark and `<!-- end -->`; tests/test_readme.py holds them equal.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import clip
import leak
import shape
from case import STAGES, multiply_adds

ROOT = Path(__file__).parent.parent
RESULTS, README, LIGHT = ROOT / "results", ROOT / "README.md", ROOT / "docs" / "light_network.md"
SETS = ("Set5", "Set14", "B100")
Blocks = dict[str, Callable[[], str]]
"""What makes each table, by its mark."""


def main() -> None:
    """Print the tables, or write them into their documents."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="into the documents")
    given = parser.parse_args()
    for document, blocks in documents().items():
        if given.write:
            document.write_text(written(document.read_text(), blocks))
        else:
            print("\n\n".join(f"{mark}\n{make()}" for mark, make in blocks.items()))


def documents() -> dict[Path, Blocks]:
    """The tables of each document."""
    scores: Blocks = {
        f"scores x{scale}": partial(scores_table, scale) for scale in STAGES if scored(scale)
    }
    files: Blocks = {
        "results/train_step.json": train_step,
        "results/latency.json": latency,
        "results/cold_start.json": cold_start,
        "results/ranks.json": ranks,
        "results/upscale.json": upscale,
        "results/leak.json": lambda: markdown(*leak.table(result("leak")["figures"])),
        "results/clip.json": lambda: markdown(*clip.table(result("clip")["figures"])),
    }
    found = {README: {**scores, **files, "hybrid": hybrid}}
    if (RESULTS / "shape.json").exists():
        found[LIGHT] = {"results/shape.json": lambda: markdown(*shape.table(result("shape")))}
    return found


def written(text: str, blocks: Blocks) -> str:
    """A document with its tables made anew; ValueError for a mark that it lacks."""
    for mark, make in blocks.items():
        head, begin, rest = text.partition(f"<!-- {mark} -->\n")
        _, end, tail = rest.partition("\n<!-- end -->")
        if not begin or not end:
            raise ValueError(f"there is no block <!-- {mark} --> ... <!-- end -->")
        text = f"{head}{begin}{make()}{end}{tail}"
    return text


def result(name: str) -> dict[str, Any]:
    """A file of results/."""
    loaded: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return loaded


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """A table."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def scored(scale: int) -> list[dict[str, Any]]:
    """What `eval.py --json` wrote of the shipped networks of a scale."""
    names = [f"edsr_{size}_x{scale}" for size in ("light", "baseline")]
    return [result(name) for name in names if (RESULTS / f"{name}.json").exists()]


def scores_table(scale: int) -> str:
    """Ours in bold, among what is published, by parameters."""
    ours = scored(scale)
    rows = [ours_row(each) for each in ours]
    for name, scales in result("published")["models"].items():
        if f"x{scale}" in scales:
            rows.append(
                (scales[f"x{scale}"]["parameters"], published_row(name, scales[f"x{scale}"]))
            )
    bicubic = [f"{each['mean']['bicubic']['psnr']:.2f}" for each in in_order(ours[0])]
    head = [f"x{scale}", "parameters", "multiply-adds", *SETS]
    by_size = [row for _, row in sorted(rows, key=lambda each: each[0])]
    return markdown(head, [["bicubic", "", "", *bicubic], *by_size])


def ours_row(scores: dict[str, Any]) -> tuple[int, list[str]]:
    """(parameters, cells) of one of ours."""
    checkpoint = scores["checkpoint"]
    name = Path(checkpoint["file"]).stem
    psnr = [f"**{each['mean'][name]['psnr']:.2f}**" for each in in_order(scores)]
    parameters = checkpoint["parameters"]
    operations = of_network(checkpoint["network"])
    return parameters, [f"**{name}**, ours", thousands(parameters), giga(operations), *psnr]


def published_row(name: str, model: dict[str, Any]) -> list[str]:
    """The cells of another's, as published; a dash for what is not."""
    psnr = [f"{model[each]:.2f}" if each in model else "–" for each in SETS]
    operations = giga(model["multiply_adds"]) if "multiply_adds" in model else "–"
    return [name, thousands(model["parameters"]), operations, *psnr]


def in_order(scores: dict[str, Any]) -> list[dict[str, Any]]:
    """The sets as tables list them."""
    by_name = {each["set"]: each for each in scores["sets"]}
    return [by_name[name] for name in SETS]


def of_network(network: dict[str, Any]) -> float:
    """Multiply-adds of a network by its description."""
    return multiply_adds(network["blocks"], network["features"], network["scale"])


def thousands(number: float) -> str:
    """As the field writes parameters."""
    return f"{number / 1000:,.0f} k"


def giga(number: float) -> str:
    """As the field writes multiply-adds."""
    return f"{number / 1e9:,.1f} G"


def train_step() -> str:
    """The training step next to PyTorch's."""
    others = ["PyTorch", "PyTorch channels_last", "PyTorch compiled", "MindSpore's operators"]
    rows = []
    for batch, sides in result("train_step")["figures"].items():
        rates = [f"{sides[name]['gflops']['median']:.0f}" for name in ("ours", "a matrix product")]
        memory = [
            f"{sides[name]['peak_mb']:.0f}" for name in ("ours", "ours, low memory", "PyTorch")
        ]
        ratios = [f"{sides[name]['ours_over_it']['median']:.2f}" for name in others]
        rows.append([batch.removeprefix("batch "), *ratios, " / ".join(rates)])
        rows[-1].append(f"{' / '.join(memory)} MB")
    first, *rest = others
    head = ["batch", f"ours / {first}", *(f"/ {name}" for name in rest), "GFLOP/s", "peak memory"]
    return markdown(head, rows)


def latency() -> str:
    """A picture through the network, by several programs."""
    figures = {**result("latency")["figures"], **result("latency_large")["figures"]}
    rows = []
    for name in result("latency")["figures"]["48 x 48"]["sides"]:
        cells = [
            f"{side['milliseconds']['median']:.0f} ms, {side['over_best_peer']:.2f}"
            if (side := size["sides"].get(name))
            else "–"
            for size in figures.values()
        ]
        rows.append([name, *cells])
    return markdown(["by", *figures], rows)


def cold_start() -> str:
    """`upscale` from the shell by each engine, and where its time goes."""
    figures = result("cold_start")["figures"]
    phases = list(next(iter(figures.values()))["phases"])
    rows = [
        [
            name,
            *(f"{each['seconds'][key]:.2f} s" for key in ("median", "best")),
            *(f"{each['phases'][phase]:.2f}" for phase in phases),
        ]
        for name, each in figures.items()
    ]
    return markdown(["engine", "in all", "best", *phases], rows)


def upscale() -> str:
    """The whole command."""
    names = {"sr_app": "ours", "pillow": "bicubic, Pillow", "realcugan": "Real-CUGAN, ncnn"}
    rows = [
        [
            size,
            names[name],
            f"{each['cold_seconds']:.1f} s",
            f"{each['warm_seconds']:.2f} s",
            f"{each['warm_seconds_a_megapixel']:.1f} s",
            f"{each['peak_mb']:.0f} MB",
        ]
        for size, sides in result("upscale")["figures"].items()
        for name, each in sides.items()
    ]
    return markdown(
        ["picture", "by", "first, new process", "next", "a megapixel", "peak memory"], rows
    )


def ranks() -> str:
    """The mean of the gradients, in buckets and one by one."""
    rows = []
    for world, measured in result("ranks")["figures"].items():
        for what, sides in measured.items():
            if what.startswith("mean"):
                ours, single = sides["buckets"], sides["each tensor"]
                one, other = (side["milliseconds"] for side in (ours, single))
                cells = [f"{one:.1f} / {other:.1f}", f"{other / one - 1:+.0%}"]
                cells.append(f"{ours['collectives']} / {single['collectives']}")
                rows.append([world.partition(" ")[0], what, *cells])
    return markdown(["processes", "what", "ms, buckets / each tensor", "gain", "all-reduces"], rows)


def hybrid() -> str:
    """Memory and throughput of data x tensor, with and without fusion."""
    rows = []
    worlds = result("ranks")["figures"]
    alone = worlds["1 process"]["step of EDSR-baseline"]["each tensor"]["milliseconds"]
    for world, measured in worlds.items():
        sides = measured["step of EDSR-baseline"]
        ours, single = (sides[name]["milliseconds"] for name in ("buckets", "each tensor"))
        many = world != "1 process"
        cells = [
            f"{ours:.0f} / {single:.0f} ms, {single / ours - 1:+.0%}"
            if many
            else f"{single:.0f} ms"
        ]
        cells.append(f"{alone / (ours if many else single):.0%}")
        rows.append(["EDSR-baseline", f"{world.partition(' ')[0]} x 1", "", "", *cells])
    sizes = result("memory")["figures"]
    whole = sizes["tensor 1"]
    for name, size in sizes.items():
        memory = [
            f"{size[what]:.0f} MB"
            + (f", {size[what] / whole[what] - 1:+.0%}" if size is not whole else "")
            for what in ("together", "peak")
        ]
        seconds = size["seconds a step"]
        speed = [f"{1000 * seconds:.0f} ms", f"{whole['seconds a step'] / seconds:.0%}"]
        rows.append(["EDSR", f"1 x {name.removeprefix('tensor ')}", *memory, *speed])
    head = ["network", "data x tensor", "held by a rank", "its peak memory"]
    return markdown([*head, "a step, buckets / each tensor", "throughput"], rows)


if __name__ == "__main__":
    main()
