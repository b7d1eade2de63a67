"""The command line: commands, and how an error is told.

The one place with print, argument parsing and exit statuses: 0 done, 2 the user's input is at
fault (told in one line, nothing half written), 130 interrupted. A bug keeps its traceback.
"""

import argparse
import difflib
import errno
import io
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml
from jsonargparse import ArgumentParser
from tqdm import tqdm

from sr_app.atomic import replacing
from sr_app.data import benchmarks, cache, folders, layouts, patches
from sr_app.errors import ConfigError, PictureError, SrAppError
from sr_app.image import files
from sr_app.image.formats import FORMATS, format_of
from sr_app.image.limits import MAX_PIXELS, Limits
from sr_app.image.metrics import BICUBIC, PROTOCOLS, Score
from sr_app.image.picture import Picture
from sr_app.inference.folder import find_jobs, upscale_in_folder, usual_ending
from sr_app.inference.jobs import Job, Outcome, Wish, upscale_file
from sr_app.parallel import launch

if TYPE_CHECKING:  # they load MindSpore, which takes a second: only when a command needs it
    from sr_app.inference.evaluate import PictureScore, SetScores, Upscale
    from sr_app.inference.model import Model
    from sr_app.inference.networks import Networks
    from sr_app.parallel.mesh import Mesh
    from sr_app.training.config import RunConfig

PROJECT = Path(__file__).resolve().parent.parent
CONFIGS = PROJECT / "configs"
RUNS = Path("checkpoints")
INTERRUPTED = launch.INTERRUPTED
REFUSED = (errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EROFS)
"""What the system may refuse wherever a name or place of the user's comes in."""
MOST_CONFIG_BYTES = 65_536
STREAM = "-"
Scale = Literal[2, 3, 4]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):  # whatever a name holds, and at once in a pipe, too
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace", line_buffering=True)
    if launch.is_scheduler():
        return _told(lambda _: launch.join()[0], [])
    if not words or words[0] in ("-h", "--help"):
        print(_usage())
        return 0
    command = COMMANDS.get(words[0])
    if command is None:
        near = difflib.get_close_matches(words[0], COMMANDS, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return _fail(f"there is no command {words[0]!r}{hint}\n{_usage()}")
    return launch.exit_status(_told(command, words[1:]))


def _told(command: Callable[[list[str]], int], words: list[str]) -> int:
    """The exit status of a command, its errors told."""
    try:
        return command(words)
    except SrAppError as error:
        return _fail(str(error))
    except OSError as error:
        if error.errno not in REFUSED:
            raise
        return _fail(f"{error.filename}: {error.strerror}")
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def train(words: list[str]) -> int:
    """train a network: settings from a file in configs/, overrides by section.key"""
    from sr_app.training.config import RunConfig
    from sr_app.training.precision import require_precision
    from sr_app.training.shard import require_shares

    given_words = words
    chosen, words = _configs_first(_resumed(words))
    parser = _parser("train", train)
    if not chosen:
        chosen = [CONFIGS / _suited_config(words)]
        parser.default_config_files = [str(chosen[0])]  # so that --help shows its values
    for path in chosen:
        _require_plain(path)
    parser.add_argument("--config", action="config", help=f"a file of {CONFIGS.name}/ or your own")
    parser.add_argument("--run", type=str | None, default=None, help="the run's folder")
    parser.add_argument(
        "--resume", metavar="RUN", help="go on with the run in this folder, by its own settings"
    )
    _add_devices(parser)
    parser.add_class_arguments(RunConfig, as_group=False, fail_untyped=True)
    given = _parse(parser, words)
    devices = _devices(given)
    given.pop("resume")
    run, config = given.pop("run"), RunConfig(**given)
    folder = Path(run) if run else RUNS / chosen[-1].stem
    require_precision(config.precision)
    if not launch.joined():
        ranks = launch.wanted(*devices)
        require_shares(config, ranks.total)
        if ranks.total > 1:
            return _launch(["train", *given_words], ranks, folder / "ranks")
    mesh = _mesh(devices, config.parallel.tensor)
    require_shares(config, mesh.world.size)
    print(f"settings {chosen[-1]}, data {config.data}, run {folder}")
    return _train(config, folder, mesh)


def _add_devices(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--devices",
        type=int | Literal["auto"],
        default="auto",
        help="devices on this server, each with a process; auto takes all accelerators (a CPU: 1)",
    )
    parser.add_argument("--nodes", type=int, default=1, help="servers; start each by hand")
    parser.add_argument("--node_rank", type=int, default=0, help="this server's number, from 0")
    parser.add_argument(
        "--master", type=str | None, default=None, help="HOST:PORT of server 0, where all meet"
    )


Devices = tuple[int | Literal["auto"], int, int, str | None]
"""--devices, --nodes, --node_rank, --master."""


def _devices(given: dict[str, Any]) -> Devices:
    """What says how many ranks there shall be, taken out of the options."""
    return (
        given.pop("devices"),
        given.pop("nodes"),
        given.pop("node_rank"),
        given.pop("master"),
    )


def _launch(words: list[str], ranks: launch.Ranks, logs: Path, quiet: bool = False) -> int:
    """Run a command on several ranks, its first one's words on the screen."""
    servers = f" on each of {ranks.nodes} servers" if ranks.nodes > 1 else ""
    if not quiet:
        print(f"starting {ranks.devices} ranks{servers}; their logs are in {logs}")
    words = ["-m", "sr_app", *words]
    status = launch.run(words, ranks, logs, lambda text: print(text, end="", flush=True))
    if status == INTERRUPTED:
        print("interrupted", file=sys.stderr)
    return status


def _launch_and_tidy(words: list[str], ranks: launch.Ranks, quiet: bool = False) -> int:
    """The same; the ranks' logs stay only where one has failed."""
    logs = Path(tempfile.mkdtemp(prefix="sr_app_ranks_"))
    status = _launch(words, ranks, logs, quiet)
    shutil.rmtree(logs)
    return status


def _mesh(devices: Devices, tensor: int) -> "Mesh":
    """This process's place among the ranks; alone where it was not started as one of many."""
    from sr_app.parallel.mesh import ALONE, mesh

    if not launch.joined():
        return ALONE
    count, nodes, _, _ = devices
    return mesh(*launch.join(None if count == "auto" else count * nodes), tensor)


def _configs_first(words: list[str]) -> tuple[list[Path], list[str]]:
    """The files that --config names, and the words with these in front: what is said beside a file
    overrides it, wherever it stands."""
    peek = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    peek.add_argument("--config", action="append", nargs="?", default=[])
    seen, others = peek.parse_known_args(words)
    named = [path for path in seen.config if path]
    if len(named) < len(seen.config):
        raise ConfigError("--config: the file's name is missing")
    return [Path(path) for path in named], [*(f"--config={path}" for path in named), *others]


def _resumed(words: list[str]) -> list[str]:
    """The words with `--resume RUN` as what it stands for: `--config RUN/config.yaml --run RUN`."""
    from sr_app.training.checkpoint import CONFIG

    peek = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    peek.add_argument("--resume", nargs="?", const="")
    peek.add_argument("--config", nargs="?", const="")
    peek.add_argument("--run", nargs="?", const="")
    seen, others = peek.parse_known_args(words)
    if seen.resume is None:
        return words
    if seen.config is not None or seen.run is not None:
        raise ConfigError("--resume RUN has its own --config and --run; give it without them")
    folder = Path(seen.resume)
    if not seen.resume or not (folder / CONFIG).is_file():
        raise ConfigError(
            f"--resume {seen.resume}: there is no run to go on with (no {CONFIG}); give the folder "
            "of one"
        )
    return [f"--config={folder / CONFIG}", f"--run={folder}", *others]


def _suited_config(words: list[str]) -> str:
    """The settings for a run without --config: by --data."""
    peek = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    peek.add_argument("--data", nargs="?")
    data = peek.parse_known_args(words)[0].data
    return "sample_x2.yaml" if data in (None, layouts.SAMPLE) else "edsr_baseline_x2.yaml"


def _require_plain(path: Path) -> None:
    """ConfigError for a settings file that only an attacker or a mistake would make."""
    try:
        size = path.stat().st_size
        text = path.read_text(encoding="utf-8") if size <= MOST_CONFIG_BYTES else ""
        aliases = any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"--config {path}: can't be read as YAML: {error}") from error
    if size > MOST_CONFIG_BYTES or aliases:
        raise ConfigError(
            f"--config {path}: settings are a small YAML file without aliases ({size} bytes found)"
        )


def _train(config: "RunConfig", folder: Path, mesh: "Mesh") -> int:
    from sr_app.inference.model import Model
    from sr_app.nets import weights
    from sr_app.nets.table import make
    from sr_app.training.loop import train as run_training

    scale = config.network.scale
    with tqdm(unit="picture", desc=f"decoding {config.data}", disable=None) as bar:
        skip = config.guard.pictures == "skip"
        pictures, pixels = cache.open_set(config.data, scale, skip, print, _follow(bar))
    validation = _validation_set(config, pictures)
    patches.require_patch(pixels, config.batch.patch)
    for pair in validation:  # now, and not after a thousand steps
        PROTOCOLS[config.validation.protocol].require_size(pair.high, pair.name, scale)
    model = Model(config.network, weights.gather(make(config.network)), "validation")

    def validate(arrays: weights.Arrays) -> Score:
        from sr_app.inference import evaluate

        model.fill(arrays)
        methods = {model.name: evaluate.network(model.enhance)}
        scores = evaluate.score_set(validation, config.validation.protocol, methods, mesh=mesh)
        return scores.mean(model.name)

    print(
        f"{len(pictures)} pictures to train on, {len(validation)} of {validation.name} to validate "
        f"on; {model.parameters:,} parameters, x{scale}"
    )
    if mesh.world.size > 1:
        print(f"{mesh.world.size} ranks: data {mesh.data.size} x tensor {mesh.tensor.size}")
    progress = run_training(config, folder, pixels, validate, print, mesh)
    best = "not validated"
    if progress.best is not None:
        best = f"best score {progress.best:.2f} dB ({config.validation.protocol})"
    done = f"{progress.step} of {config.steps} steps done, {best}: {folder}"
    if progress.step < config.steps:
        print(f"stopped; {done}\nthe same command again continues")
        return INTERRUPTED
    print(f"finished; {done}\nscore it: python eval.py --checkpoint {folder}")
    return 0


def _validation_set(config: "RunConfig", training: folders.PictureSet) -> benchmarks.BenchmarkSet:
    """What to validate on; says so when the training set has nothing for it."""
    settings, scale = config.validation, config.network.scale
    if settings.data is not None:
        return benchmarks.load(settings.data, scale, settings.pictures)
    held_out = benchmarks.held_out(config.data, training, scale, settings.pictures)
    if held_out is not None:
        return held_out
    print(f"{config.data} has no validation pictures of its own: taking the embedded ones")
    return benchmarks.load(layouts.SAMPLE, scale, settings.pictures)


def evaluate(words: list[str]) -> int:
    """score a checkpoint on benchmark sets beside bicubic: PSNR in dB and SSIM"""
    from sr_app import report
    from sr_app.inference import evaluate as scoring
    from sr_app.inference.model import ensemble

    parser = _parser("eval", evaluate)
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
    _add_devices(parser)
    given = _parse(parser, words)
    devices = _devices(given)
    _require_writable(given["json"], given["csv"])
    if given["protocol"] not in (None, *PROTOCOLS):
        raise ConfigError(
            f"--protocol must be one of {', '.join(PROTOCOLS)}, got {given['protocol']!r}"
        )
    if not launch.joined() and (ranks := launch.wanted(*devices)).total > 1:
        return _launch_and_tidy(["eval", *words], ranks)
    mesh = _mesh(devices, tensor=1)
    if given["checkpoint"] == BICUBIC:
        if given["ensemble"]:
            raise ConfigError(f"--ensemble is for networks; {BICUBIC} has nothing to average")
        scale = given["scale"] or 2
        methods = {BICUBIC: scoring.bicubic(scale)}
    else:
        model = _model(given["checkpoint"] or _newest(given["scale"]), given["scale"])
        scale = model.scale
        name = model.name + ("+" if given["ensemble"] else "")
        enhance = ensemble(model.enhance) if given["ensemble"] else model.enhance
        methods = {BICUBIC: scoring.bicubic(scale), name: scoring.network(enhance)}
        print(f"{model.name}: {model.parameters:,} parameters, x{scale}")
    names = benchmarks.available() or [layouts.SAMPLE]
    if given["sets"] is not None:
        names = [name.strip() for name in given["sets"].split(",")]
    loaded = [benchmarks.load(name, scale) for name in names]
    strips = _folder(given["strips"]) if given["strips"] else None
    sets = [_score_set(each, given["protocol"], methods, strips, mesh) for each in loaded]
    if not mesh.first:
        return 0
    print(f"\n{report.text_table(sets)}")
    if given["json"]:
        result = {"scale": scale, "sets": [each.as_dict() for each in sets]}
        _write_text(Path(given["json"]), json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    if given["csv"]:
        _write_text(Path(given["csv"]), report.csv_table(sets))
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


def upscale(words: list[str]) -> int:
    """enlarge a picture, or all in a folder; by default beside it, with _x2 added to its name"""
    given = _parse(_upscale_parser(), words)
    devices = _devices(given)
    # as Ctrl-C, so that nothing half written is left
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    to_stdout = given["output"] == STREAM
    if given["json"] and to_stdout:
        raise ConfigError("--json and the picture can't both be written to the standard output")
    quiet = given["quiet"] or given["json"] or to_stdout
    folder = Path(given["picture"])
    if layouts.is_folder(folder):
        if not launch.joined() and (ranks := launch.wanted(*devices)).total > 1:
            return _launch_and_tidy(["upscale", *words], ranks, quiet)
        return _upscale_folder(folder, given, quiet, _mesh(devices, tensor=1))
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
    parser = _parser("upscale", upscale)
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
        help="a checkpoint or a run's folder; by default the shipped network that reaches so far",
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
    parser.add_argument("--quiet", action="store_true", help="tell nothing but errors")
    parser.add_argument("--json", action="store_true", help="tell each file as a line of JSON")
    _add_devices(parser)
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
            outcome = upscale_file(Job(source, target), networks, wish, _follow(bar))
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
        return INTERRUPTED
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
    model = _model(given["checkpoint"], None) if given["checkpoint"] else None
    return Networks(model, tile, given["ensemble"])


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


def check_data(words: list[str]) -> int:
    """look at a set before training on it: pairs, sizes, bad files, what is missing"""
    parser = _parser("check-data", check_data)
    parser.add_argument("data", type=str, help="a name, a folder, several joined by +")
    parser.add_argument("--scale", type=Scale, default=2, help="2, 3 or 4")
    given = _parse(parser, words)
    with tqdm(desc=given["data"], unit="picture", disable=None) as bar:
        report = folders.check(given["data"], given["scale"], progress=_follow(bar))
    print(report)
    return 0 if report.ok else 2


def demo(words: list[str]) -> int:
    """train the small network on the embedded photographs, score it, upscale a picture"""
    folder = Path("demo")
    _parse(_parser("demo", demo), words)
    _folder(str(folder))
    held_out = benchmarks.load(layouts.SAMPLE, 2)[0]
    low, strips = folder / f"{held_out.name}_low.png", folder / "strips"
    files.write(low, Picture(held_out.low))
    run, result = str(RUNS / "sample_x2"), str(folder / f"{held_out.name}_x2.png")
    for step in (
        ["train"],
        ["eval", "--checkpoint", run, "--sets", layouts.SAMPLE, "--strips", str(strips)],
        ["upscale", str(low), "-o", result, "--checkpoint", run],
    ):
        print(f"\n$ sr-app {' '.join(step)}")
        if status := COMMANDS[step[0]](step[1:]):
            return status
    print(
        f"\nLook at {strips}: low, bicubic, ours and the truth side by side, with their scores.\n"
        "Next: source .venv/bin/activate\n"
        "      python -m sr_app upscale YOUR_PICTURE.jpg\n"
        "      python train.py --config configs/edsr_light_x2.yaml --steps 10500 "
        "--data FOLDER_OF_YOUR_PICTURES"
    )
    return 0


def doctor(words: list[str]) -> int:
    """what the program finds here: versions, device, operators, threads, speed"""
    _parse(_parser("doctor", doctor), words)
    from sr_app.doctor import findings

    for what, found in findings():
        print(f"{what:<14}{found}")
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "train": train,
    "eval": evaluate,
    "upscale": upscale,
    "check-data": check_data,
    "demo": demo,
    "doctor": doctor,
}


def _usage() -> str:
    lines = [f"  {name:<12}{command.__doc__}" for name, command in COMMANDS.items()]
    first, last = "usage: python -m sr_app COMMAND ...\n", "\nCOMMAND --help says more"
    return "\n".join([first, *lines, last])


def _parser(name: str, command: Callable[[list[str]], int]) -> ArgumentParser:
    return ArgumentParser(
        prog=f"sr-app {name}", description=command.__doc__, exit_on_error=False, allow_abbrev=False
    )


def _parse(parser: ArgumentParser, words: list[str]) -> dict[str, Any]:
    """The options by name, settings as their dataclasses; ConfigError tells a near match."""
    try:
        given: dict[str, Any] = dict(vars(parser.instantiate(parser.parse_args(words))))
    except (TypeError, KeyError) as error:  # jsonargparse's, for a section that is no section
        raise ConfigError(
            "the settings can't be understood: network, batch, optimizer and validation are "
            "sections with settings of their own"
        ) from error
    except argparse.ArgumentError as error:
        message = str(error)
        known = [option for action in parser._actions for option in action.option_strings]
        for word in words:
            option = word.partition("=")[0]
            if option.startswith("-") and option not in known and option in message:
                near = difflib.get_close_matches(option, known, 1)
                message += f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(f"{message}\n{parser.prog} --help lists all options") from error
    given.pop("config", None)
    return given


def _model(given: Path | str, scale: int | None) -> "Model":
    """The network of a checkpoint file or of a run's folder; of `scale`, if one is asked for."""
    from sr_app.inference.model import Model
    from sr_app.training.checkpoint import BEST, LATEST

    path = Path(given)
    if path.is_dir():
        best = path / BEST if (path / BEST).exists() else path / LATEST  # stopped before it scored
        model = Model.load(best, path.name)
    else:
        model = Model.load(path)
    if scale not in (None, model.scale):
        raise ConfigError(f"--scale {scale} was asked for, but {path} enlarges x{model.scale}")
    return model


def _newest(scale: int | None) -> Path:
    """The run (of `scale`, if one is asked for) whose network is newest, or the shipped network."""
    from sr_app.inference.networks import shipped
    from sr_app.nets import weights
    from sr_app.training.checkpoint import BEST

    runs = sorted(RUNS.glob(f"*/{BEST}"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in runs:
        if scale in (None, weights.read(path).config.scale):
            return path.parent
    return shipped(scale or 2)


def _follow(bar: "tqdm[Any]") -> Callable[[int, int], None]:
    """A callback of (done, total) that moves the bar."""

    def follow(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)

    return follow


def _folder(name: str) -> Path:
    path = Path(name)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PictureError(f"{path}: this folder can't be made: {error.strerror}") from error
    return path


def _require_writable(*names: str | None) -> None:
    """ConfigError, before any work, for files that can't be written, or not all."""
    paths = [Path(name) for name in names if name is not None]
    for path in paths:
        if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
            raise ConfigError(f"{path}: can't be written: not a file in a folder that you may use")
    if len({path.absolute() for path in paths}) < len(paths):
        raise ConfigError(f"{paths[0]}: would be written twice; give two names")


def _write_text(path: Path, text: str) -> None:
    try:
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise ConfigError(f"{path}: can't be written: {error.strerror}") from error
    print(f"wrote {path}")


def _fail(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2
