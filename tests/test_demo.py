"""The demo keeps its word."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_demo_beats_bicubic_by_1_db_on_pictures_it_has_not_seen(
    command: Callable[..., tuple[int, str, str]],
) -> None:
    status, out, err = command("demo")
    assert status == 0, err
    words = ("--checkpoint", "checkpoints/sample_x2", "--sets", "sample", "--json", "scores.json")
    assert command("eval", *words)[0] == 0
    (scored,) = json.loads(Path("scores.json").read_text())["sets"]
    assert list(scored["pictures"]) == ["chelsea", "coffee"]
    bicubic, ours = (scored["mean"][name]["psnr"] for name in ("bicubic", "sample_x2"))
    assert ours >= bicubic + 1
    for name in ("chelsea_low.png", "chelsea_x2.png"):
        assert (Path("demo") / name).is_file()
    assert len(list(Path("demo/strips").glob("*.png"))) == 2
    assert "Next:" in out
