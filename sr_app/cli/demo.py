"""The command `demo`."""

from pathlib import Path

from sr_app.cli.evaluate import evaluate
from sr_app.cli.models import RUNS
from sr_app.cli.options import parse, parser_of
from sr_app.cli.outputs import folder_at
from sr_app.cli.train import train
from sr_app.cli.upscale import upscale
from sr_app.data import benchmarks, layouts
from sr_app.image import files
from sr_app.image.picture import Picture


def demo(words: list[str]) -> int:
    """train the small network on the embedded photographs, score it, upscale a picture"""
    folder = Path("demo")
    parse(parser_of("demo", demo), words)
    folder_at(str(folder))
    held_out = benchmarks.load(layouts.SAMPLE, 2)[0]
    low, strips = folder / f"{held_out.name}_low.png", folder / "strips"
    files.write(low, Picture(held_out.low))
    run, result = str(RUNS / "sample_x2"), str(folder / f"{held_out.name}_x2.png")
    for command, told in (
        (train, ["train"]),
        (evaluate, ["eval", "--checkpoint", run, "--sets", "sample", "--strips", str(strips)]),
        (upscale, ["upscale", str(low), "-o", result, "--checkpoint", run]),
    ):
        print(f"\n$ sr-app {' '.join(told)}")
        if status := command(told[1:]):
            return status
    print(
        f"\nLook at {strips}: low, bicubic, ours and the truth side by side, with their scores.\n"
        "Next: source .venv/bin/activate\n"
        "      python -m sr_app upscale YOUR_PICTURE.jpg\n"
        "      python train.py --config configs/edsr_light_x2.yaml --steps 10500 "
        "--data FOLDER_OF_YOUR_PICTURES"
    )
    return 0
