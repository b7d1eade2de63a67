"""Ship a run's network: python benchmarks/ship.py RUN NAME.

Needs Set5, Set14 and B100 where sets are looked up. Writes `checkpoints/NAME.safetensors`: the
moving average at the last step, as float16 where that costs no set more than 0.01 dB, else float32;
`results/NAME.json`, its scores by eval.py; and the facts of its card `checkpoints/NAME.md`, between
two marks: what stands around them is written by hand. Without RUN only the facts are made anew.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import yaml
from tables import ROOT, SETS, giga, markdown, of_network, result
from trials import config_of

from sr_app.cli import main as sr_app
from sr_app.cli.train import CONFIGS
from sr_app.errors import SrAppError
from sr_app.nets import weights
from sr_app.nets.weights import Weights
from sr_app.origin import machine, sha256
from sr_app.training.checkpoint import LATEST, states
from sr_app.training.journal import METRICS

Numbers = Literal["float32", "float16"]
LOSS = 0.01  # dB that a set may lose by float16
BEGIN, END = "<!-- facts: benchmarks/ship.py -->", "<!-- end -->"

SOURCES = {
    "CC0_patches384": "387 pieces of 384 x 384 pixels of 78 photographs that are CC0 or in the "
    "public domain (wallpapers of the Budgie, elementary, Fedora, Pop!_OS and Solus projects)",
    "gb82_CC0/photo": "25 photographs of 576 x 576 pixels, CC0-1.0 (the gb82 image set)",
    "sample": "four photographs that come with scikit-image, CC0 or in the public domain",
}
"""What may be trained on for a network that is shipped, and its licence."""


def main() -> None:
    """Ship, or make the facts anew."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, nargs="?", help="the run's folder")
    parser.add_argument("name", help="such as edsr_light_x2: also its config's")
    given = parser.parse_args()
    os.chdir(ROOT)
    try:
        if given.run is not None:
            ship(given.run, given.name)
        write_card(given.name)
    except (SrAppError, ValueError) as error:
        sys.exit(f"error: {error}")


def ship(run: Path, name: str) -> None:
    """The network's file and its scores."""
    read = weights.read(run / LATEST)
    record = {**read.record, **origin_of(run, read, name)}

    def write(folder: Path, numbers: Numbers) -> Path:
        path = folder / f"{name}.safetensors"
        whole = Weights(read.config, read.arrays, {**record, "numbers": numbers})
        weights.write(path, whole, numbers)
        return path

    shipped, scores = ROOT / "checkpoints", Path("results") / f"{name}.json"
    half = score(write(shipped, "float16").relative_to(ROOT), scores)
    with tempfile.TemporaryDirectory() as folder:
        whole = score(write(Path(folder), "float32"), Path(folder) / scores.name)
    lost = {each: whole[each] - half[each] for each in SETS}
    print(f"float16 costs {', '.join(f'{loss:.4f} dB on {each}' for each, loss in lost.items())}")
    if max(lost.values()) > LOSS:
        score(write(shipped, "float32").relative_to(ROOT), scores)


def score(checkpoint: Path, file: Path) -> dict[str, float]:
    """Scores by eval.py, as JSON; returns the PSNR in dB of each set."""
    words = ["eval", "--checkpoint", str(checkpoint), "--sets", ",".join(SETS), "--json", str(file)]
    if sr_app(words) != 0:
        raise ValueError(f"{checkpoint}: eval.py failed")
    sets = json.loads(file.read_text())["sets"]
    return {each["set"]: each["mean"][checkpoint.stem]["psnr"] for each in sets}


def origin_of(run: Path, read: Weights, name: str) -> dict[str, Any]:
    """What the network's file tells of its run beside its step: settings without this machine's
    folders, the command, the digest of the pictures, hours, the machine."""
    settings = dict(read.record["config"])
    settings["data"] = "+".join(map(named, settings["data"].split("+")))
    unknown = set(settings["data"].split("+")) - set(SOURCES)
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: what is it, and its licence? Say so in SOURCES")
    validation = settings["validation"]
    if validation["data"] is not None:
        settings["validation"] = {**validation, "data": named(validation["data"])}
    if settings["warm_start"] is not None:
        settings["warm_start"] = (
            f"checkpoints/{Path(settings['warm_start']).parent.name}.safetensors"
        )
    _, state = weights.read_arrays(states(run)[0])
    return {
        "config": settings,
        "command": command(settings, name),
        "data_key": state["data"],
        "hours": hours(run, settings["batch"]["size"]),
        "machine": machine(),
    }


def named(spec: str) -> str:
    """A set's path as the name by which it is found below SR_DATA."""
    path, root = Path(spec), Path(os.environ.get("SR_DATA", ROOT / "data")).absolute()
    if not path.is_absolute():
        return spec
    for base in (root / "train", root / "benchmarks", root):
        if path.is_relative_to(base):
            return str(path.relative_to(base))
    return path.name


def command(settings: dict[str, Any], name: str) -> str:
    """What to type for these settings: the config's file, and what differs from it."""
    usual = asdict(config_of(yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())))
    words = [f"--{key} {value}" for key, value in differences(usual, settings)]
    return " ".join(["python train.py --config", f"configs/{name}.yaml", *words])


def differences(
    usual: dict[str, Any], wanted: dict[str, Any], at: str = ""
) -> list[tuple[str, str]]:
    """(section.key, value) of what isn't as usual."""
    found = []
    for key, value in wanted.items():
        if isinstance(value, dict):
            found += differences(usual[key], value, f"{at}{key}.")
        elif value != usual[key]:
            found.append((f"{at}{key}", "null" if value is None else shlex.quote(str(value))))
    return found


def hours(run: Path, batch: int) -> float:
    """Spent in training steps, by the journal: without validations and restarts."""
    seconds, before = 0.0, 0
    for line in (run / METRICS).read_text().splitlines():
        record = json.loads(line)
        if "patches_per_second" in record:
            seconds += (record["step"] - before) * batch / record["patches_per_second"]
            before = record["step"]
    return seconds / 3600


def write_card(name: str) -> None:
    """The card, with its facts made anew; a new card has nothing else."""
    path = ROOT / "checkpoints" / f"{name}.md"
    block = f"{BEGIN}\n{facts(name)}\n{END}"
    text = path.read_text() if path.exists() else f"# {name}\n\n{block}\n"
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"{path}: has no block {BEGIN} ... {END}")
    path.write_text(pattern.sub(lambda _: block, text))
    print(f"wrote {path.relative_to(ROOT)}")


def facts(name: str) -> str:
    """What the card says of a shipped network, from its file and its scores."""
    path = ROOT / "checkpoints" / f"{name}.safetensors"
    read, scores = weights.read(path), result(name)
    record, config = read.record, read.config
    settings = record["config"]
    batch = settings["batch"]
    size = f"{batch['size']} patches of {batch['patch']} x {batch['patch']} pixels"
    operations = giga(of_network(asdict(config)))
    rows = [
        [each["set"], each["protocol"], *(shown(each["mean"][by]) for by in ("bicubic", name))]
        for each in scores["sets"]
    ]
    table = markdown(["set", "protocol", "bicubic", "this"], rows)
    return "\n".join(
        [
            f"- **Network**: EDSR, {config.blocks} blocks x {config.features} features, "
            f"x{config.scale}: {config.parameters:,} parameters",
            f"  ({record['numbers']}, values 0..255), {operations} multiply-adds for 1280 x 720.",
            "- **Data**: these alone; low pictures by MATLAB's bicubic.",
            *(f"  - `{part}`: {SOURCES[part]}" for part in settings["data"].split("+")),
            f"  - digest of all and the scale: `{record['data_key']}`",
            f"- **Command**: `{record['command']}`",
            f"- **Took**: {record['step']:,} steps of {size}, {record['hours']:.1f} hours on",
            "  {processor}, {cores} cores that other work shared.".format(**record["machine"]),
            "- **Weights**: the moving average at the last step: nothing was chosen by a score.",
            f"- **sha256**: `{sha256(path)}`",
            "",
            f"PSNR in dB / SSIM; `results/{name}.json` has every picture:",
            "",
            table,
        ]
    )


def shown(score: dict[str, float]) -> str:
    """PSNR and SSIM."""
    return f"{score['psnr']:.2f} / {score['ssim']:.4f}"


if __name__ == "__main__":
    main()
