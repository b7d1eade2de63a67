"""The command `eval`."""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from sr_app.cli.models import add_engine, checkpoint_file, load_model, newest
from sr_app.cli.options import Scale, parse, parser_of
from sr_app.cli.outputs import folder_at, require_writable, write_text
from sr_app.cli.ranks import add_devices, devices_of, launch_and_tidy, mesh_of
from sr_app.data import benchmarks, layouts
from sr_app.errors import ConfigError
from sr_app.image import files
from sr_app.image.metrics import BICUBIC, PROTOCOLS
from sr_app.image.picture import Picture
from sr_app.parallel import launch

if TYPE_CHECKING:
    from sr_app.inference.evaluate import PictureScore, SetScores, Upscale
    from sr_app.parallel.mesh import Mesh


def evaluate(words: list[str]) -> int:
    """score a checkpoint on benchmark sets beside bicubic: PSNR in dB and SSIM"""
    from sr_app import report
    from sr_app.inference import evaluate as scoring
    from sr_app.inference.model import ensemble

    parser = parser_of("eval", evaluate)
    parser.add_argument(
        "--checkpoint",
        type=str | None,
        default=None,
        help=f"a checkpoint, a run's folder, or {BICUBIC}; by default the newest run, or the "
        "shipped network",
    )
    parser.add_argument(
        "--sets",
        type=str | None,
        default=None,
        help="names or folders, with commas between; by default the known sets that are there",
    )
    parser.add_argument("--scale", type=Scale | None, default=None, help="2, 3 or 4")
    parser.add_argument(
        "--protocol",
        type=str | None,
        default=None,
        help=f"{', '.join(PROTOCOLS)}; by default what the set's published scores use",
    )
    parser.add_argument(
        "--ensemble", action="store_true", help="the mean over 8 flips and turns (EDSR+)"
    )
    parser.add_argument("--json", type=str | None, default=None, help="write all scores here")
    parser.add_argument("--csv", type=str | None, default=None, help="the same as a table")
    parser.add_argument(
        "--strips", type=str | None, default=None, help="folder for a comparison strip per picture"
    )
    add_engine(parser, "mindspore")  # what the network was trained by
    add_devices(parser)
    given = parse(parser, words)
    devices = devices_of(given)
    require_writable(given["json"], given["csv"])
    if given["protocol"] not in (None, *PROTOCOLS):
        raise ConfigError(
            f"--protocol must be one of {', '.join(PROTOCOLS)}, got {given['protocol']!r}"
        )
    if not launch.joined() and (ranks := launch.wanted(*devices)).total > 1:
        return launch_and_tidy(["eval", *words], ranks)
    mesh = mesh_of(devices, tensor=1)
    if given["checkpoint"] == BICUBIC:
        if given["ensemble"]:
            raise ConfigError(f"--ensemble is for networks; {BICUBIC} has nothing to average")
        scale = given["scale"] or 2
        methods = {BICUBIC: scoring.bicubic(scale)}
        checkpoint = None
    else:
        checkpoint = given["checkpoint"] or newest(given["scale"])
        model = load_model(checkpoint, given["scale"], given["engine"], given["mode"])
        scale = model.scale
        print(f"engine {model.engine.name}")
        name = model.name + ("+" if given["ensemble"] else "")
        enhance = ensemble(model.enhance) if given["ensemble"] else model.enhance
        methods = {BICUBIC: scoring.bicubic(scale), name: scoring.network(enhance)}
        print(f"{model.name}: {model.parameters:,} parameters, x{scale}")
    names = benchmarks.available() or [layouts.SAMPLE]
    if given["sets"] is not None:
        names = [name.strip() for name in given["sets"].split(",")]
    loaded = [benchmarks.load(name, scale) for name in names]
    strips = folder_at(given["strips"]) if given["strips"] else None
    sets = [_score_set(each, given["protocol"], methods, strips, mesh) for each in loaded]
    if not mesh.first:
        return 0
    print(f"\n{report.text_table(sets)}")
    if given["json"]:
        file = None if checkpoint is None else checkpoint_file(Path(checkpoint))
        result = scoring.record(shlex.join(["python", "eval.py", *words]), file, loaded, sets)
        write_text(Path(given["json"]), json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    if given["csv"]:
        write_text(Path(given["csv"]), report.csv_table(sets))
    return 0


def _score_set(
    pictures: benchmarks.BenchmarkSet,
    protocol: str | None,
    methods: "dict[str, Upscale]",
    strips: Path | None,
    mesh: "Mesh",
) -> "SetScores":
    """Score one set under a progress bar; `strips` is where a strip per picture goes."""
    from sr_app import report
    from sr_app.inference.evaluate import score_set

    total = len(range(mesh.world.index, len(pictures), mesh.world.size))  # this rank's share
    with tqdm(total=total, desc=pictures.name, unit="picture", disable=None) as bar:

        def look(pair: benchmarks.Pair, scored: "dict[str, PictureScore]") -> None:
            bar.update()
            if strips is not None:
                strip = Picture(report.comparison(pair, scored))
                files.write(strips / f"{pictures.name}_{pair.name}.png", strip)

        return score_set(pictures, protocol or pictures.protocol, methods, look, mesh)
