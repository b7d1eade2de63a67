"""The command `train`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from tqdm import tqdm

from sr_app.cli.models import RUNS
from sr_app.cli.options import follow, parse, parser_of
from sr_app.cli.ranks import add_devices, devices_of, launch_ranks, mesh_of
from sr_app.data import benchmarks, cache, folders, layouts, patches
from sr_app.errors import ConfigError
from sr_app.image.metrics import PROTOCOLS, Score
from sr_app.parallel import launch

if TYPE_CHECKING:  # they load MindSpore, which takes a second: only when it is needed
    from sr_app.parallel.mesh import Mesh
    from sr_app.training.config import RunConfig

PROJECT = Path(__file__).resolve().parent.parent.parent
CONFIGS = PROJECT / "configs"
MOST_CONFIG_BYTES = 65_536


def train(words: list[str]) -> int:
    """train a network: settings from a file in configs/, overrides by section.key"""
    from sr_app.training.config import RunConfig
    from sr_app.training.precision import require_precision
    from sr_app.training.shard import require_shares

    given_words = words
    chosen, words = _configs_first(_resumed(words))
    parser = parser_of("train", train)
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
    add_devices(parser)
    parser.add_class_arguments(RunConfig, as_group=False, fail_untyped=True)
    given = parse(parser, words)
    devices = devices_of(given)
    given.pop("resume")
    run, config = given.pop("run"), RunConfig(**given)
    folder = Path(run) if run else RUNS / chosen[-1].stem
    require_precision(config.precision)
    if not launch.joined():
        ranks = launch.wanted(*devices)
        require_shares(config, ranks.total)
        if ranks.total > 1:
            return launch_ranks(["train", *given_words], ranks, folder / "ranks")
    mesh = mesh_of(devices, config.parallel.tensor)
    require_shares(config, mesh.world.size)
    print(f"settings {chosen[-1]}, data {config.data}, run {folder}")
    return _train(config, folder, mesh)


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
        pictures, pixels = cache.open_set(config.data, scale, skip, print, follow(bar))
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
        return launch.INTERRUPTED
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
