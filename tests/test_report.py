"""Tables and strips."""

import numpy as np
import pytest

from sr_app import report
from sr_app.data.benchmarks import Pair
from sr_app.data.degradation import low_from_high
from sr_app.image.metrics import Score
from sr_app.inference.evaluate import PictureScore, SetScores

SCORES = SetScores(
    "Set5",
    "benchmark",
    {
        "baby": {"bicubic": Score(30.0, 0.8), "ours": Score(32.0, 0.9)},
        "bird": {"bicubic": Score(31.0, 0.9), "ours": Score(31.5, 0.95)},
    },
)


def test_the_table_shows_means_and_the_gain() -> None:
    head, row, protocol = report.text_table([SCORES]).splitlines()
    assert head.split() == ["set", "pictures", "bicubic", "ours", "gain"]
    assert row.split() == ["Set5", "2", "30.50/0.8500", "31.75/0.9250", "+1.25"]
    assert protocol.startswith("PSNR in dB / SSIM; protocol benchmark: luma")


def test_bicubic_alone_has_no_gain() -> None:
    alone = SetScores("Set5", "rgb", {"baby": {"bicubic": Score(30.0, 0.8)}})
    head, row, _ = report.text_table([alone]).splitlines()
    assert head.split() == ["set", "pictures", "bicubic"]
    assert row.split() == ["Set5", "1", "30.00/0.8000"]


def test_the_csv_has_a_row_per_picture_and_method() -> None:
    lines = report.csv_table([SCORES]).splitlines()
    assert lines[1] == "Set5,benchmark,baby,bicubic,30.0,0.8"
    assert len(lines) == 5


def test_the_detail_is_where_bicubic_fails() -> None:
    """A flat picture with one checkered corner."""
    high = np.full((80, 120, 3), 128, np.uint8)
    high[40:60, 80:110] = 255 * (np.indices((20, 30)).sum(axis=0) % 2)[..., None]
    rows, columns = report.detail(low_from_high(high, 2), high, side=20)
    assert rows.start <= 20 and rows.stop >= 30
    assert columns.start <= 40 and columns.stop >= 55
    assert (rows.stop - rows.start, columns.stop - columns.start) == (20, 20)


@pytest.mark.parametrize("size", [(40, 60), (300, 260), (24, 300)])
def test_a_comparison_shows_all_at_one_scale(size: tuple[int, int]) -> None:
    """Four panels of the same height: low repeated pixel by pixel, the result, the truth."""
    random = np.random.default_rng(0)
    high = random.integers(0, 256, (*size, 3), np.uint8)
    pair = Pair("noise", low_from_high(high, 2), high)
    scored = {name: PictureScore(high, Score(30.0, 0.9)) for name in ("bicubic", "ours")}
    strip = report.comparison(pair, scored)
    side = [2 * min(96, length // 2) for length in size]
    assert strip.shape[1] == 4 * side[1] + 3 * report.GAP + 2 * report.MARGIN
    panels = [
        strip[report.MARGIN :, report.MARGIN + k * (side[1] + report.GAP) :][: side[0], : side[1]]
        for k in range(4)
    ]
    np.testing.assert_array_equal(panels[1], panels[3])
    np.testing.assert_array_equal(panels[0][::2, ::2].repeat(2, 0).repeat(2, 1), panels[0])
    assert (strip[-report.MARGIN - 2 * report.TEXT :] < 128).any(), "there is text under them"
