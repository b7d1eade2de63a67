"""The command line from end to end, and how it tells what is wrong."""

import csv
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from sr_app.cli import CONFIGS

Command = Callable[..., tuple[int, str, str]]
TINY = (
    *("--steps", 4, "--network.blocks", 1, "--network.features", 4, "--average", 0.5),
    *("--batch.size", 2, "--batch.patch", 8, "--validation.pictures", 1, "--validation.every", 2),
    *("--optimizer.warm_up", 1),
)


def told(error: str) -> str:
    """The one error that was told, without the progress bars around it."""
    assert "Traceback" not in error
    assert error.count("error: ") == 1
    return error[error.index("error: ") :]


def test_train_score_and_upscale_end_to_end(command: Command, pictures: Path) -> None:
    status, out, err = command("train", "--data", pictures, "--run", "run", *TINY)
    assert status == 0, err
    assert "has no validation pictures of its own: taking the embedded ones" in out
    assert "finished; 4 of 4 steps done" in out
    settings = yaml.safe_load(Path("run/config.yaml").read_text())
    assert settings["network"] == {
        "scale": 2,
        "blocks": 1,
        "features": 4,
        "residual_scale": 1.0,
        "activation": "leaky_grad_relu",
        "slope": 0.01,
    }

    words = ("--sets", pictures, "--json", "a.json", "--csv", "a.csv", "--strips", "strips")
    status, out, err = command("eval", "--checkpoint", "run", *words)
    assert status == 0, err
    assert "protocol benchmark: luma" in out
    result = json.loads(Path("a.json").read_text())
    assert result["scale"] == 2
    (scored,) = result["sets"]
    assert list(scored["pictures"]) == ["0", "1", "2"]
    for method in ("bicubic", "run"):
        each = [scores[method]["psnr"] for scores in scored["pictures"].values()]
        assert scored["mean"][method]["psnr"] == pytest.approx(np.mean(each))
        assert f"{np.mean(each):.2f}" in out
    rows = list(csv.DictReader(Path("a.csv").read_text().splitlines()))
    assert len(rows) == 6
    assert float(rows[1]["psnr"]) == scored["pictures"]["0"]["run"]["psnr"]
    assert len(list(Path("strips").glob("*.png"))) == 3

    status, out, err = command("upscale", pictures / "0.png", "--checkpoint", "run")
    assert status == 0, err
    assert command("upscale", pictures / "0.png", "-o", "strips", "--checkpoint", "run")[0] == 0
    for folder in (pictures, Path("strips")):
        with Image.open(folder / "0_x2.png") as large:
            assert large.size == (128, 96)


def test_the_same_command_again_finds_the_run_finished(command: Command, pictures: Path) -> None:
    words = ("train", "--data", pictures, "--run", "run", *TINY)
    assert command(*words)[0] == 0
    before = Path("run/state.safetensors").stat().st_mtime_ns
    status, out, _ = command(*words)
    assert (status, "finished; 4 of 4" in out) == (0, True)
    assert Path("run/state.safetensors").stat().st_mtime_ns == before
    status, _, err = command(*words, "--seed", 5)
    assert status == 2
    assert "seed was 1, now 5" in told(err)


def test_a_stopped_run_ends_with_status_130_and_goes_on(
    command: Command, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sr_app.inference import evaluate

    def stop_while_scoring(*given: object) -> evaluate.PictureScore:
        os.kill(os.getpid(), signal.SIGTERM)
        return scored(*given)  # type: ignore[arg-type]

    scored = evaluate.score_pair
    words = ("train", "--data", pictures, "--run", "run", *TINY)
    monkeypatch.setattr(evaluate, "score_pair", stop_while_scoring)
    status, out, _ = command(*words)
    assert (status, "stopped; 2 of 4 steps done" in out) == (130, True)
    monkeypatch.undo()
    monkeypatch.chdir(pictures.parent)
    status, out, _ = command(*words)
    assert (status, "finished; 4 of 4 steps done" in out) == (0, True)


def test_eval_alone_takes_the_newest_run_and_what_sets_there_are(
    command: Command, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SR_DATA", raising=False)
    assert command("train", "--data", pictures, "--run", "checkpoints/mine", *TINY)[0] == 0
    status, out, err = command("eval")
    assert status == 0, err
    assert out.startswith("mine: ")
    assert "\nsample " in out


def test_bicubic_is_scored_without_a_network(command: Command, pictures: Path) -> None:
    status, out, _ = command(
        "eval", "--checkpoint", "bicubic", "--sets", pictures, "--scale", 3, "--protocol", "rgb"
    )
    assert status == 0
    assert "protocol rgb" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "no command 'trian'; did you mean train?"),
        (["train", "--network.blocs", 3], "did you mean --network.blocks?"),
        (["train", "--network.blocks", "x"], "network.blocks"),
        (["train", "--network.blocks", 0], "network.blocks must be at least 1, got 0"),
        (["train", "--network.scale", 5], "network.scale"),
        (["train", "--steps", 0], "steps must be at least 1"),
        (["train", "--loss", "l3"], "loss"),
        (["train", "--config", "none.yaml"], "No such file"),
        (["train", "--config"], "--config"),
        (["train", "--data", "no_such_set"], "no_such_set"),
        (["train", "--data", "pictures", "--batch.patch", 64], "64"),
        (["train", "--warm_start", "none.safetensors"], "no such checkpoint"),
        (["train", "--validation.data", "no_such_set"], "no_such_set"),
        (["eval", "--checkpoint", "none"], "no such checkpoint"),
        (["eval", "--checkpoint", "bicubic", "--ensemble"], "nothing to average"),
        (["eval", "--checkpoint", "bicubic", "--sets", "Set55"], "Set55"),
        (["eval", "--checkpoint", "bicubic", "--protocol", "y"], "benchmark, div2k, rgb"),
        (["eval", "--checkpoint", "bicubic", "--scale", 7], "2, 3, 4"),
        (["eval", "--checkpoint", "bicubic", "--json", "none/a.json"], "can't be written"),
        (["eval", "--checkpoint", "bicubic", "--json", "pictures"], "can't be written"),
        (["eval", "--checkpoint", "bicubic", "--json", "a", "--csv", "a"], "written twice"),
        (["eval", "--checkpoint", "bicubic", "--sets", ""], "set"),
        (["eval", "--checkpoint", 300 * "a"], "ame too long"),
        (["train", "--run", 300 * "a"], "ame too long"),
        (["train", "--data", 300 * "a"], "there is no set"),
        (["upscale", 300 * "a"], "ame too long"),
        (["upscale", "none.png"], "none.png"),
        (["upscale", "pictures"], "is a folder"),
        (["upscale"], "picture"),
        (["upscale", "pictures/0.png", "--scale", 5], "2, 3, 4"),
        (["check-data", "no_such_set"], "no_such_set"),
        (["check-data", "pictures", "--scale", "two"], "scale"),
    ],
)
def test_bad_input_is_told_in_one_line_and_writes_nothing(
    command: Command, pictures: Path, words: list[object], message: str
) -> None:
    before = sorted(Path().rglob("*"))
    status, _, err = command(*words)
    assert status == 2
    assert message in told(err)
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("network: {blocs: 3}", "blocs"),
        ("network: [3", "expected"),
        ("stepps: 3", "stepps"),
        ("network: {scale: two}", "network.scale"),
        ("optimizer: {clip_norm: -1}", "optimizer.clip_norm must be above 0"),
        ("[1, 2]", "config"),
        ("network: 5", "network"),
        ("data: null", "data must be str, got None"),
        ("mode: null", "mode must be"),
        ("network: {scale: 2.0}", "network.scale"),
        ("optimizer: {learning_rate: .inf}", "optimizer.learning_rate must be float"),
        ("data: &a x\nrun: *a", "without aliases"),
        ("# " + 70_000 * "x", "small YAML file"),
        ("network: !!python/object/apply:os.system ['touch broken_into']", "config"),
    ],
)
def test_a_bad_settings_file_is_told(command: Command, text: str, message: str) -> None:
    Path("bad.yaml").write_text(text)
    status, _, err = command("train", "--config", "bad.yaml")
    assert status == 2
    assert message in told(err)
    assert [p.name for p in Path().iterdir()] == ["bad.yaml"]


def test_upscale_says_what_cannot_be_written_before_any_work(
    command: Command, pictures: Path, tmp_path: Path
) -> None:
    assert command("train", "--data", pictures, "--run", "run", *TINY)[0] == 0
    Image.new("RGBA", (8, 8)).save("alpha.png")
    for target, message in [
        ("a.jpg", "alpha"),
        ("a.xyz", ".xyz"),
        ("a", "ending"),
        ("none/a.png", "no folder"),
        ("alpha.png", "is the picture itself"),
        (300 * "a" + ".png", "ame too long"),
    ]:
        status, _, err = command("upscale", "alpha.png", "-o", target, "--checkpoint", "run")
        assert status == 2
        assert message in told(err)
    status, _, err = command("upscale", "alpha.png", "--checkpoint", "run", "--scale", 3)
    assert status == 2
    assert "--scale 3 was asked for, but run enlarges x2" in told(err)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["alpha.png", "pictures", "run"]


def test_check_data_tells_what_is_there_and_what_is_bad(command: Command, pictures: Path) -> None:
    status, out, _ = command("check-data", pictures)
    assert status == 0
    assert "3 HR pictures" in out
    (pictures / "1.png").write_bytes(b"text")
    status, out, _ = command("check-data", pictures)
    assert status == 2
    assert "1.png" in out


def test_what_is_said_beside_a_settings_file_overrides_it_wherever_it_stands(
    command: Command, pictures: Path
) -> None:
    Path("my.yaml").write_text("steps: 100000\nnetwork: {blocks: 30}")
    status, out, err = command("train", *TINY, "--data", pictures, "--config", "my.yaml")
    assert status == 0, err
    assert "finished; 4 of 4 steps done" in out
    assert "run checkpoints/my" in out


def test_help_names_every_command_and_every_setting(
    command: Command, capfd: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = command()
    assert status == 0
    for name in ("train", "eval", "upscale", "check-data", "demo"):
        assert f"  {name} " in out
    with pytest.raises(SystemExit) as ended:
        command("train", "--help")
    assert ended.value.code == 0
    assert "--optimizer.clip_norm" in capfd.readouterr().out


SLOW_CONFIGS = ("edsr_baseline_x3", "edsr_baseline_x4", "edsr_x2", "edsr_x3", "edsr_x4")


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(path, marks=[pytest.mark.slow] if path.stem in SLOW_CONFIGS else [])
        for path in sorted(CONFIGS.glob("*.yaml"))
    ],
    ids=lambda path: path.stem,
)
def test_every_config_builds_and_steps(command: Command, pictures: Path, config: Path) -> None:
    """As it is but for its size: one step of one patch."""
    status, out, err = command(
        *("train", "--config", config, "--data", pictures, "--run", "run", "--steps", 1),
        *("--batch.size", 1, "--batch.patch", 8, "--optimizer.warm_up", 0),
        *("--warm_start", "null", "--validation.data", pictures, "--validation.pictures", 1),
    )
    assert status == 0, err
    assert f", x{config.stem[-1]}\n" in out
