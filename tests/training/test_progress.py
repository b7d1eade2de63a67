"""How far a run is: what counts as a skip, what is usual, how float16 finds its scale."""

import json
import math
from dataclasses import asdict

import pytest

from sr_app.errors import ConfigError
from sr_app.training import precision
from sr_app.training.config import GuardConfig, RunConfig
from sr_app.training.guard import spike_limit, trouble_of
from sr_app.training.precision import GROW_AFTER, HIGHEST, LOWEST, LossScale, require_precision
from sr_app.training.progress import RECENT, USUAL_AFTER, Progress, Taken

GOOD, BAD = Taken(2.0, 1.0, True), Taken(math.nan, math.nan, False)


def after(progress: Progress, *steps: Taken) -> Progress:
    for taken in steps:
        progress = progress.after(taken)
    return progress


def test_skips_are_counted_and_no_updates() -> None:
    progress = after(Progress(), GOOD, BAD, BAD, GOOD, BAD)
    assert (progress.step, progress.skipped, progress.skipped_in_a_row) == (5, 3, 1)
    assert progress.updates == 2


def test_progress_comes_back_from_its_text() -> None:
    progress = after(Progress(scale=LossScale()), GOOD, BAD)
    again = Progress.read(json.loads(json.dumps(asdict(progress))))
    assert repr(again) == repr(progress)  # nan isn't equal to itself


def test_a_spike_is_over_so_many_times_the_median_of_the_last_losses() -> None:
    """Bad numbers don't count, nor do old ones; and few losses say nothing."""
    guard = GuardConfig(spike=3.0)
    few = after(Progress(), BAD, *[GOOD] * (USUAL_AFTER - 1))
    assert spike_limit(guard, few) == math.inf
    assert spike_limit(guard, after(few, GOOD)) == 6.0
    assert spike_limit(GuardConfig(spike=None), after(few, GOOD)) == math.inf
    later = after(few, *[Taken(5.0, 1.0, True)] * RECENT)
    assert len(later.recent) == RECENT
    assert spike_limit(guard, later) == 15.0


def test_what_is_wrong_with_a_step_is_said() -> None:
    assert trouble_of(GOOD, math.inf) is None
    assert trouble_of(BAD, math.inf) == "loss nan, norm nan; left out"
    assert trouble_of(Taken(9.0, 1.0, True), 6.0) == "spike: loss 9 is over 6"
    assert trouble_of(Taken(9.0, 1.0, False), 6.0) == "spike: loss 9 is over 6; left out"


def test_the_loss_scale_falls_at_once_and_rises_slowly() -> None:
    scale = LossScale(8.0).after(False)
    assert scale == LossScale(4.0, 0)
    for _ in range(GROW_AFTER - 1):
        scale = scale.after(True)
    assert scale == LossScale(4.0, GROW_AFTER - 1)
    assert scale.after(False) == LossScale(2.0, 0), "an overflow begins the count anew"
    assert scale.after(True) == LossScale(8.0, 0)
    assert LossScale(HIGHEST, GROW_AFTER - 1).after(True) == LossScale(HIGHEST, 0)


def test_at_the_lowest_loss_scale_skips_in_a_row_are_counted_so_that_the_run_ends() -> None:
    """Above it an overflow only halves the scale, however often."""
    progress = Progress(scale=LossScale(4.0))
    seen = []
    for _ in range(5):
        progress = progress.after(BAD)
        assert progress.scale is not None
        seen.append((progress.scale.value, progress.skipped_in_a_row))
    assert seen == [(2.0, 0), (LOWEST, 0), (LOWEST, 1), (LOWEST, 2), (LOWEST, 3)]
    assert after(progress, GOOD).skipped_in_a_row == 0


def test_a_precision_that_the_device_lacks_is_refused_with_what_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require_precision("float32")
    with pytest.raises(ConfigError, match=r"float16 is not supported.*CPU.*supported: float32$"):
        require_precision("float16")
    monkeypatch.setattr(precision.ms, "get_context", lambda what: "Ascend")
    require_precision("float16")
    with pytest.raises(ConfigError, match="precision must be"):
        RunConfig(precision="bfloat16")  # type: ignore[arg-type]
