"""The command line from end to end, and how it tells what is wrong."""

import csv
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from sr_app.cli.train import CONFIGS, PROJECT
from sr_app.data.cache import open_cache
from sr_app.data.folders import find

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
    assert result["command"].startswith("python eval.py --checkpoint run --sets ")
    best = Path("run/best.safetensors")
    assert result["checkpoint"]["sha256"] == hashlib.sha256(best.read_bytes()).hexdigest()
    assert yaml.safe_load(result["checkpoint"]["config"]) == settings
    assert result["versions"]["mindspore"] and result["machine"]["cores"]
    (scored,) = result["sets"]
    assert scored["key"] == open_cache(find(str(pictures), 2), 2).key
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
    before = Path("run/state-00000004.safetensors").stat().st_mtime_ns
    status, out, _ = command(*words)
    assert (status, "finished; 4 of 4" in out) == (0, True)
    assert Path("run/state-00000004.safetensors").stat().st_mtime_ns == before
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
    assert out.startswith("engine mindspore\nmine: ")
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
        (["upscale", "pictures", "-o", "pictures"], "would replace a picture"),
        (["upscale", "pictures", "-o", "-"], "a folder can't be written to the standard output"),
        (["upscale", "pictures", "-o", "pictures/0.png"], "is a file; a folder needs a folder"),
        (["upscale"], "picture"),
        (["upscale", "pictures/0.png", "--scale", 9], "x9 or more is shipped"),
        (["upscale", "pictures", "--scale", 9], "x9 or more is shipped"),
        (["upscale", "pictures/0.png", "--scale", 0.5], "scale must be at least 1"),
        (["upscale", "pictures/0.png", "--scale", "x"], "scale"),
        (["upscale", "pictures/0.png", "--scale", 2, "--size", "9x"], "give one of them"),
        (["upscale", "pictures/0.png", "--size", "1920"], "--size is like 1920x"),
        (["upscale", "pictures/0.png", "--size", "x"], "--size is like 1920x"),
        (["upscale", "pictures/0.png", "--size", "0x"], "width must be at least 1"),
        (["upscale", "pictures/0.png", "--tile", "big"], "--tile is auto or a number"),
        (["upscale", "pictures/0.png", "--tile", 4], "tile must be at least 8"),
        (["upscale", "pictures/0.png", "--format", "xcf"], "--format must be one of png, jpg"),
        (["upscale", "pictures/0.png", "--format", "tif", "-o", "a.png"], "another format"),
        (["upscale", "pictures/0.png", "--quality", 90], "quality is for JPEG"),
        (["upscale", "pictures/0.png", "--quality", 0, "-o", "a.jpg"], "from 1 to 100"),
        (["upscale", "pictures/0.png", "--max-pixels", 3000], "64 x 48 pixels, over the limit"),
        (["upscale", "pictures/0.png", "--max-pixels", 0], "max-pixels must be at least 1"),
        (["upscale", "pictures/0.png", "-o", "-", "--json"], "can't both be written"),
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
    assert "x3 was asked for, but run enlarges x2" in told(err)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["alpha.png", "pictures", "run"]


def sizes(folder: str) -> dict[str, tuple[int, int]]:
    """The pictures of a folder with their width and height."""
    found = {}
    for path in sorted(Path(folder).iterdir()):
        with Image.open(path) as image:
            found[path.name] = image.size
    return found


def test_upscale_takes_a_folder_and_continues(command: Command, pictures: Path) -> None:
    (pictures / "notes.txt").write_text("hello")
    (pictures / "broken.png").write_text("hello")
    status, out, err = command("upscale", pictures, "--size", "100x", "--format", "webp")
    assert status == 1
    assert "skipped: " in out and "notes.txt is no picture" in out
    assert "pictures_100x: 3 enlarged, 1 skipped, 1 failed" in out
    assert "failed: " in err and "broken.png is no picture" in err
    assert sizes("pictures_100x") == {f"{k}.webp": (100, 75) for k in range(3)}
    (pictures / "broken.png").unlink()
    Path("pictures_100x/1.webp").unlink()
    words = ("upscale", pictures, "--size", "100x", "--format", "webp", "--skip-existing")
    status, out, _ = command(*words, "--json")
    assert status == 0
    told_of = [json.loads(line) for line in out.splitlines()]
    assert [(each["status"], Path(each["source"]).name) for each in told_of] == [
        ("skipped", "0.png"),
        ("done", "1.png"),
        ("skipped", "2.png"),
        ("skipped", "notes.txt"),
    ]
    assert told_of[1]["after"] == [100, 75]
    assert told_of[1]["network"] == "edsr_light_x2"
    status, out, _ = command(*words, "--quiet")
    assert (status, out) == (0, "")


def test_upscale_names_the_result_by_what_was_asked_for(command: Command, pictures: Path) -> None:
    assert command("upscale", pictures / "0.png", "--scale", 1.5)[0] == 0
    assert command("upscale", pictures / "0.png", "--size", "80x80", "--format", "jpg")[0] == 0
    Image.new("F", (3, 4), 0.5).save("a.tiff")
    assert command("upscale", "a.tiff", "--ensemble", "--tile", 16)[0] == 0
    with Image.open("a_x2.tif") as image:
        assert (image.mode, image.size) == ("F", (6, 8))
    for path in pictures.glob("[12].png"):
        path.unlink()
    assert sizes("pictures") == {
        "0.png": (64, 48),
        "0_80x80.jpg": (80, 60),
        "0_x1.5.png": (96, 72),
    }


def test_an_interrupted_folder_says_how_to_go_on(
    command: Command, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sr_app.inference.model import Model

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Model, "enhance", interrupted)
    status, _, err = command("upscale", pictures, "-o", "out")
    assert status == 130
    assert "--skip-existing goes on" in err
    assert not list(Path("out").iterdir())


def test_a_job_that_is_ended_leaves_nothing_half_written(
    command: Command, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sr_app.inference.model import Model

    def end(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(Model, "enhance", end)
    try:
        assert command("upscale", pictures / "0.png", "-o", "a.png")[0] == 130
    finally:
        signal.signal(signal.SIGTERM, before)
    assert sorted(Path().iterdir()) == [Path("pictures")]


def run_in_a_pipe(data: bytes, *words: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "sr_app", "upscale", *map(str, words)],
        input=data,
        capture_output=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )


def test_upscale_works_in_a_pipe(pictures: Path) -> None:
    """Only the picture comes out; an error tells of the standard input and writes nothing."""
    done = run_in_a_pipe((pictures / "0.png").read_bytes(), "-", "-o", "-", "--format", "webp")
    assert done.returncode == 0, done.stderr
    with Image.open(io.BytesIO(done.stdout)) as image:
        assert (image.format, image.size) == ("WEBP", (128, 96))
    failed = run_in_a_pipe(b"hello", "-", "-o", "-")
    assert (failed.returncode, failed.stdout) == (2, b"")
    assert failed.stderr.decode().startswith("error: standard input is no picture")


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
