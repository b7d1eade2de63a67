"""The command `upscale`."""

import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import ArgumentParser
from tqdm import tqdm

from sr_app.cli.models import add_engine, load_model
from sr_app.cli.options import follow, parse, parser_of
from sr_app.cli.ranks import add_devices, devices_of, launch_and_tidy, mesh_of
from sr_app.data import layouts
from sr_app.errors import ConfigError, PictureError, SrAppError
from sr_app.image.formats import FORMATS, format_of
from sr_app.image.limits import MAX_PIXELS, Limits
from sr_app.inference.folder import find_jobs, upscale_in_folder, usual_ending
from sr_app.inference.jobs import Job, Outcome, Wish, upscale_file
from sr_app.parallel import launch

if TYPE_CHECKING:
    from sr_app.inference.model import Model
    from sr_app.inference.networks import Networks
    from sr_app.parallel.mesh import Mesh

STREAM = "-"


def upscale(words: list[str]) -> int:
    """enlarge a picture, or all in a folder; by default beside it, with _x2 added to its name"""
    given = parse(_upscale_parser(), words)
    devices = devices_of(given)
    # as Ctrl-C, so that nothing half written is left
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    to_stdout = given["output"] == STREAM
    if given["json"] and to_stdout:
        raise ConfigError("--json and the picture can't both be written to the standard output")
    quiet = given["quiet"] or given["json"] or to_stdout
    folder = Path(given["picture"])
    if layouts.is_folder(folder):
        if not launch.joined() and (ranks := launch.wanted(*devices)).total > 1:
            return launch_and_tidy(["upscale", *words], ranks, quiet)
        return _upscale_folder(folder, given, quiet, mesh_of(devices, tensor=1))
    if devices[0] not in ("auto", 1) or devices[1] != 1:
        raise ConfigError(f"--devices, --nodes: {folder} is one picture; a folder's are shared out")
    with tempfile.TemporaryDirectory(prefix="sr_app-") as streams:
        source = _stdin(Path(streams)) if given["picture"] == STREAM else folder
        if to_stdout:
            ending = _ending(given["format"]) or usual_ending(source)
            given["output"] = str(Path(streams) / f"standard output{ending}")
        try:
            outcome = _upscale_one(source, given, quiet)
        except SrAppError as error:  # the streams' files have names that nobody knows
            raise type(error)(str(error).replace(f"{streams}{os.sep}", "")) from error
        if to_stdout and outcome.target is not None:
            try:
                with outcome.target.open("rb") as file:
                    shutil.copyfileobj(file, sys.stdout.buffer)
                    sys.stdout.buffer.flush()
            except BrokenPipeError as error:
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for Python's end
                raise PictureError("the standard output was closed before its end") from error
    return 0


def _upscale_parser() -> ArgumentParser:
    parser = parser_of("upscale", upscale)
    parser.add_argument("picture", type=str, help="a file, a folder, or - for the standard input")
    parser.add_argument(
        *("-o", "--output"),
        type=str | None,
        default=None,
        help="the result, whose ending tells its format; a folder for it; or - for the standard "
        "output",
    )
    parser.add_argument(
        "--format",
        type=str | None,
        default=None,
        help="png, jpg, webp, tif, gif or bmp, where no ending tells; by default tif for a TIFF "
        "and png for others",
    )
    parser.add_argument(
        "--scale", type=float | None, default=None, help="any number from 1; by default 2"
    )
    parser.add_argument(
        "--size",
        type=str | None,
        default=None,
        help="pixels instead: 1920x is a width, x1080 a height, 1920x1080 what fits inside",
    )
    parser.add_argument(
        "--checkpoint",
        type=str | None,
        default=None,
        help="a checkpoint, a run's folder or an exported file; by default the shipped network "
        "that reaches so far",
    )
    parser.add_argument(
        "--ensemble", action="store_true", help="the mean over 8 flips and turns (EDSR+)"
    )
    parser.add_argument(
        "--quality",
        type=int | None,
        default=None,
        help="1 to 100, for JPEG (95) and WebP (without loss by default)",
    )
    parser.add_argument(
        "--tile", type=str, default="auto", help="side of a tile in pixels, or auto"
    )
    parser.add_argument(
        "--skip-existing", action="store_true", help="leave the results alone that are there"
    )
    parser.add_argument(
        "--max-pixels", type=int, default=MAX_PIXELS, help="the most that a file may hold"
    )
    parser.add_argument(
        "--allow-truncated", action="store_true", help="take what there is of a file cut short"
    )
    add_engine(parser, "auto")
    parser.add_argument("--quiet", action="store_true", help="tell nothing but errors")
    parser.add_argument("--json", action="store_true", help="tell each file as a line of JSON")
    add_devices(parser)
    return parser


def _upscale_one(source: Path, given: dict[str, Any], quiet: bool) -> Outcome:
    """Enlarge a file; tells what was done unless `quiet`."""
    networks, wish = _networks(given), _wish(given)
    ending = _ending(given["format"])
    target = Path(given["output"]) if given["output"] else source.parent
    if layouts.is_folder(target):
        name = f"{source.stem}_{_told_size(given, networks)}{ending or usual_ending(source)}"
        if given["picture"] == STREAM:
            raise ConfigError("-o: say where the enlarged standard input goes; - is for a pipe")
        target /= name
    elif ending is not None and format_of(target) is not FORMATS[ending]:
        raise ConfigError(f"--format {given['format']}: the name {target} asks for another format")
    if given["skip_existing"] and layouts.is_file(target):
        outcome = Outcome(source, target, "skipped", "is there already")
    else:
        with tqdm(desc=source.name, unit="tile", disable=quiet or None) as bar:
            outcome = upscale_file(Job(source, target), networks, wish, follow(bar))
    if given["json"]:
        print(json.dumps(outcome.as_dict()))
    elif not quiet:
        print(_line_of(outcome))
    return outcome


def _upscale_folder(folder: Path, given: dict[str, Any], quiet: bool, mesh: "Mesh") -> int:
    """Enlarge all pictures of a folder, shared out over the ranks; 1 if some failed."""
    if given["output"] == STREAM:
        raise ConfigError("-o -: a folder can't be written to the standard output")
    networks, wish = _networks(given), _wish(given)
    if wish.width is None and wish.height is None:  # now, and not once for each picture
        networks.reaching(wish.factor or networks.usual_factor)
    whole = folder.resolve()
    output = whole.with_name(f"{whole.name}_{_told_size(given, networks)}")
    if given["output"]:
        output = Path(given["output"])
    if layouts.is_file(output):
        raise ConfigError(f"--output {output} is a file; a folder needs a folder")
    jobs, outcomes = find_jobs(folder, output, _ending(given["format"]))
    as_done = given["json"] and mesh.world.size == 1  # else when all are gathered
    bar = tqdm(
        desc=folder.name, total=len(jobs), unit="picture", disable=(quiet or not mesh.first) or None
    )

    def work(number: int) -> Outcome:
        outcome = upscale_in_folder(jobs[number], networks, wish, given["skip_existing"])
        bar.update(mesh.world.size)
        if as_done:
            print(json.dumps(outcome.as_dict()))
        return outcome

    try:
        with bar:
            done = mesh.spread(len(jobs), work)
    except KeyboardInterrupt:
        print("interrupted; the same command with --skip-existing goes on", file=sys.stderr)
        return launch.INTERRUPTED
    if not mesh.first:
        return 0
    if given["json"] and not as_done:
        print("".join(json.dumps(outcome.as_dict()) + "\n" for outcome in done), end="")
    return _tell_folder(folder, output, outcomes + done, given["json"], quiet)


def _tell_folder(
    folder: Path, output: Path, outcomes: list[Outcome], as_json: bool, quiet: bool
) -> int:
    """Say what came of a folder; 1 if some failed."""
    counted = Counter(outcome.status for outcome in outcomes)
    if as_json:
        for outcome in outcomes:
            if outcome.target is None:  # it was no job
                print(json.dumps(outcome.as_dict()))
    for outcome in outcomes:
        if outcome.status == "failed":
            print(f"failed: {outcome.reason}", file=sys.stderr)
        elif outcome.status == "skipped" and outcome.target is None and not quiet:
            print(f"skipped: {outcome.source} {outcome.reason}")
    if not quiet:
        print(
            f"{folder} -> {output}: {counted['done']} enlarged, {counted['skipped']} skipped, "
            f"{counted['failed']} failed"
        )
    return launch.SOME_FAILED if counted["failed"] else 0


def _line_of(outcome: Outcome) -> str:
    if outcome.before is None or outcome.after is None:
        return f"{outcome.source} -> {outcome.target} {outcome.reason}"
    several = f", {outcome.pictures} pictures" if outcome.pictures > 1 else ""
    return (
        f"{outcome.source} ({outcome.before[0]} x {outcome.before[1]}{several}) -> "
        f"{outcome.target} ({outcome.after[0]} x {outcome.after[1]}) by {outcome.network}"
    )


def _networks(given: dict[str, Any]) -> "Networks":
    from sr_app.inference.model import TILE
    from sr_app.inference.networks import Networks

    tile = TILE
    if given["tile"] != "auto":
        if not given["tile"].isdecimal():
            raise ConfigError(f"--tile is auto or a number of pixels, got {given['tile']!r}")
        tile = int(given["tile"])

    def load(path: Path | str) -> "Model":
        model = load_model(path, None, given["engine"], given["mode"])
        if not given["quiet"]:
            print(f"engine {model.engine.name}", file=sys.stderr)
        return model

    model = load(given["checkpoint"]) if given["checkpoint"] else None
    return Networks(model, tile, given["ensemble"], load)


def _wish(given: dict[str, Any]) -> Wish:
    scale, size = given["scale"], given["size"]
    width = height = None
    if size is not None:
        found = re.fullmatch(r"(\d{1,9})?x(\d{1,9})?", size)
        if found is None or not any(found.groups()):
            raise ConfigError(f"--size is like 1920x, x1080 or 1920x1080, got {size!r}")
        width, height = (int(side) if side else None for side in found.groups())
    limits = Limits(given["max_pixels"], given["allow_truncated"])
    return Wish(scale, width, height, given["quality"], limits)


def _told_size(given: dict[str, Any], networks: "Networks") -> str:
    """What is added to a name: x2, or the size that was asked for."""
    return given["size"] or f"x{given['scale'] or networks.usual_factor:g}"


def _ending(format: str | None) -> str | None:
    if format is None:
        return None
    ending = f".{format.lower().removeprefix('.')}"
    if ending not in FORMATS:
        known = ", ".join(each.removeprefix(".") for each in FORMATS)
        raise ConfigError(f"--format must be one of {known}, got {format!r}")
    return ending


def _stdin(folder: Path) -> Path:
    """The standard input as a file: pictures are not read from front to back."""
    path = folder / "standard input"
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path
