"""docs/reliability.md promises what is tested and publishes what was measured."""

import json
import re

from sr_app.cli.train import PROJECT

TEXT = (PROJECT / "docs" / "reliability.md").read_text()


def test_every_test_that_is_named_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", TEXT))
    there = {
        name
        for path in (PROJECT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert len(named) > 25
    assert named <= there, named - there


def test_its_figures_are_those_of_the_results() -> None:
    figures = json.loads((PROJECT / "results" / "endurance.json").read_text())["figures"]
    for name, cost in figures["saves"].items():
        row = (
            f"| {name} | {cost['megabytes']:.0f} MB | {cost['seconds to copy']:.2f} s | "
            f"{cost['seconds to write']:.1f} s | {cost['processor seconds']:.1f} s | "
            f"{cost['percent of a run']:.2f} % |"
        )
        assert row in TEXT, row
        assert cost["percent of a run"] < 2
    resident = figures["resident_mb"]
    assert f"{resident['500']:.1f} MB after 500 steps, {resident['2000']:.1f} after 2,000" in TEXT
