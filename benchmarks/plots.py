"""The plots of results/, made from its JSON files: python benchmarks/plots.py.

Needs matplotlib: pip install -c requirements-extras.lock -e '.[plots]'.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tables import RESULTS, result


def main() -> None:
    """Draw what there are results of."""
    for name, draw in {"leak": leak, "clip": clip, "shape": shape}.items():
        if (RESULTS / f"{name}.json").exists():
            path = RESULTS / f"{name}.png"
            draw(result(name)).savefig(path, dpi=80)
            print(f"wrote {path}")


def leak(found: dict[str, Any]) -> Figure:
    """PSNR by step and by processor time; ours next to plain in all cases; dead units by block."""
    figure = Figure((13, 9), layout="constrained")
    (by_step, by_time), (gains, dead) = figure.subplots(2, 2)
    cases = found["figures"]
    base = next(iter(cases))
    for name, each in cases[base].items():
        steps, psnr = np.array(each["steps"]), np.array(each["psnr"])
        seconds = steps * float(np.median(each["seconds_a_step"]))
        label = f"leak {name}" if name != "0" else "plain ReLU"
        for axes, x in ((by_step, steps), (by_time, seconds)):
            (line,) = axes.plot(x, psnr.mean(axis=0), label=label)
            axes.fill_between(x, psnr.min(0), psnr.max(0), alpha=0.15, color=line.get_color())
    for case, leaks in cases.items():
        differences = np.array(leaks["0.01"]["psnr"]) - np.array(leaks["0"]["psnr"])
        gains.errorbar(
            leaks["0"]["steps"], differences.mean(0), differences.std(0), label=case, capsize=2
        )
        for name in ("0", "0.01"):
            share = 100 * np.array(leaks[name]["dead"])
            label = f"{case}, {f'leak {name}' if name != '0' else 'plain'}"
            dead.plot(np.arange(1, len(share) + 1), share, marker=".", label=label)
    gains.axhline(0, color="gray", linewidth=0.8)
    dress(dead, "units off everywhere, at the end", "block", "%")
    dress(by_step, f"{base} (band: seeds)", "step", "validation PSNR, dB")
    dress(by_time, base, "processor seconds", "validation PSNR, dB")
    dress(gains, "leak 0.01 less plain (bar: deviation)", "step", "dB")
    return figure


def clip(found: dict[str, Any]) -> Figure:
    """The PSNR at the end by rate, with each norm; a cross where the run exploded."""
    runs = list(found["figures"]["runs"].values())
    scales = list(dict.fromkeys(run["residual_scale"] for run in runs))
    depths = list(dict.fromkeys(run["depth"] for run in runs))
    norms = list(dict.fromkeys(run["norm"] for run in runs))
    figure = Figure((15, 8), layout="constrained")
    grid = figure.subplots(len(scales), len(depths), sharex=True, sharey=True, squeeze=False)
    lowest = found["figures"]["bicubic"] - 8
    for row, scale in zip(grid, scales, strict=True):
        for axes, depth in zip(row, depths, strict=True):
            for norm in norms:
                chosen = [
                    run
                    for run in runs
                    if (run["residual_scale"], run["depth"], run["norm"]) == (scale, depth, norm)
                ]
                rates = [run["rate"] for run in chosen]
                psnr = [max(run["psnr"] or lowest, lowest) for run in chosen]
                label = "no clip" if norm is None else f"norm {norm:g}"
                (line,) = axes.plot(rates, psnr, marker="o", label=label)
                bad = [
                    (r, p) for r, p, run in zip(rates, psnr, chosen, strict=True) if run["exploded"]
                ]
                if bad:
                    axes.scatter(*zip(*bad, strict=True), 120, color=line.get_color(), marker="x")
            axes.axhline(found["figures"]["bicubic"], color="gray", linestyle=":")
            axes.set_xscale("log")
            dress(axes, f"{depth} blocks, residual scale {scale:g}", "rate", "PSNR at the end, dB")
    return figure


def shape(found: dict[str, Any]) -> Figure:
    """PSNR by the time of a picture."""
    figure = Figure((8, 5), layout="constrained")
    axes = figure.subplots()
    for name, each in found["figures"].items():
        x, y = each["milliseconds"], each["psnr"]
        axes.plot(x, y, "o", label=f"{name}, {each['steps']} steps")
        axes.annotate(name, (x, y), textcoords="offset points", xytext=(4, 4), fontsize=8)
    axes.set_xscale("log")
    dress(axes, "blocks x features", "processor ms of a picture", "validation PSNR, dB")
    return figure


def dress(axes: Axes, title: str, x: str, y: str) -> None:
    """Words and a legend."""
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)


if __name__ == "__main__":
    main()
