"""The journal's file survives a cut and a continued run."""

import json
import math
import struct
from pathlib import Path

import pytest

from sr_app.errors import TrainingError
from sr_app.image.metrics import Score
from sr_app.training.journal import RECORD_EVERY, Journal
from sr_app.training.progress import Taken


def steps(path: Path) -> list[int]:
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


def test_records_are_means_over_their_steps(tmp_path: Path) -> None:
    with Journal(tmp_path, 0, RECORD_EVERY, patches=4) as journal:
        for step in range(1, RECORD_EVERY + 1):
            journal.step(step, Taken(float(step), 2.0, True), rate=1e-3, waited=0.0)
        journal.validation(RECORD_EVERY, Score(30.0, 0.9), "rgb")
    training, validation = map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines())
    assert training["loss"] == (RECORD_EVERY + 1) / 2
    assert training["norm"] == 2.0
    assert validation == {"step": RECORD_EVERY, "psnr": 30.0, "ssim": 0.9}


def test_a_skipped_step_is_counted_and_not_in_the_means(tmp_path: Path) -> None:
    """So that each line is JSON: nan is not."""
    with Journal(tmp_path, 0, 3, patches=4) as journal:
        for step, loss in ((1, 2.0), (2, math.nan), (3, 4.0)):
            journal.step(step, Taken(loss, 1.0, loss == loss), rate=1e-3, waited=0.0)
    record = json.loads((tmp_path / "metrics.jsonl").read_text())
    assert (record["loss"], record["norm"], record["skipped"]) == (3.0, 1.0, 1)


def test_records_past_the_start_and_broken_lines_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(
        b'{"step": 20}\nhello}\n\xff\x00}\n[1]\n{"step": "x"}\n'
        b'{"step": 40}\n{"step": 60}\n{"step": 8'
    )
    with Journal(tmp_path, 40, 100, patches=4):
        pass
    assert steps(path) == [20, 40]


def test_a_pause_takes_no_step_out_of_the_means(tmp_path: Path) -> None:
    with Journal(tmp_path, 0, 2, patches=4) as journal:
        journal.step(1, Taken(2.0, 1.0, True), rate=1e-3, waited=0.0)
        with journal.pausing():
            pass
        journal.step(2, Taken(4.0, 1.0, True), rate=1e-3, waited=0.0)
    assert json.loads((tmp_path / "metrics.jsonl").read_text())["loss"] == 3.0


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(TrainingError, match="can't be written"):
        Journal(tmp_path, 0, 2, patches=4)


def test_a_record_that_was_not_full_yet_is_filled_after_a_resume(tmp_path: Path) -> None:
    """Killed after 27 steps, of which 25 were saved: the record is what it would have been."""
    taken = [Taken(float(step), 1.0, step != 23) for step in range(1, 41)]

    def run(folder: Path, *parts: tuple[int, int]) -> list[dict[str, float]]:
        folder.mkdir()
        for begin, end in parts:
            with Journal(folder, begin, 40, 4, taken[max(0, begin - 100) : begin]) as journal:
                for step in range(begin + 1, end + 1):
                    journal.step(step, taken[step - 1], rate=1e-3, waited=0.0)
        lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
        times = ("patches_per_second", "data_wait")
        return [{k: v for k, v in line.items() if k not in times} for line in lines]

    whole = run(tmp_path / "whole", (0, 40))
    assert [line["step"] for line in whole] == [RECORD_EVERY, 2 * RECORD_EVERY]
    assert whole[1]["skipped"] == 1
    assert run(tmp_path / "cut", (0, 27), (25, 30), (21, 40)) == whole
    assert run(tmp_path / "even", (0, 20), (20, 40)) == whole


def test_tensorboard_reads_what_is_written(tmp_path: Path) -> None:
    """Record by record, as TFRecord has it: length, its checksum, the event, its checksum."""
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.record_writer import masked_crc32c

    with Journal(tmp_path, 3, 5, patches=4) as journal:
        journal.validation(4, Score(30.0, 0.9), "rgb")
        journal.step(5, Taken(2.0, 1.0, True), rate=1e-3, waited=0.0)
    (path,) = (tmp_path / "tensorboard").iterdir()
    data, events = path.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        assert struct.unpack("<I", data[8:12]) == (masked_crc32c(data[:8]),)
        event, data = data[12 : 12 + length], data[12 + length :]
        assert struct.unpack("<I", data[:4]) == (masked_crc32c(event),)
        events.append(Event.FromString(event))
        data = data[4:]
    assert events[0].file_version == "brain.Event:2"
    assert (events[1].step, events[1].session_log.status) == (4, 1)  # START
    values = {v.tag: (e.step, v.simple_value) for e in events for v in e.summary.value}
    assert values["validation/psnr"] == (4, 30.0)
    assert values["training/loss"] == (5, 2.0)
