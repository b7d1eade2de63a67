"""Saves in a thread: one after the other, none lost, no error lost."""

import threading
import time

import pytest

from sr_app.errors import CheckpointError, TrainingError
from sr_app.training.saver import Saver


def failing() -> None:
    raise CheckpointError("the disk is full")


def test_saves_are_written_in_turn_and_before_the_end() -> None:
    begin, written = threading.Event(), []

    def slow() -> None:
        begin.wait(10)
        written.append("first")

    with Saver() as saver:
        saver.start(slow)
        saver.look()
        assert not written, "the run goes on meanwhile"
        begin.set()
        saver.start(lambda: written.append("second"))
    assert written == ["first", "second"]


@pytest.mark.parametrize("call", ["look", "wait", "start", "end"])
def test_what_goes_wrong_is_raised_by_the_next_call(call: str) -> None:
    with pytest.raises(CheckpointError, match="the disk is full"), Saver() as saver:
        saver.start(failing)
        if call == "look":
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:
                saver.look()
        if call == "wait":
            saver.wait()
        if call == "start":
            saver.start(lambda: None)
        if call != "end":
            pytest.fail("nothing was raised")


def test_a_run_that_ends_by_an_error_tells_that_one() -> None:
    with pytest.raises(TrainingError, match="the numbers"), Saver() as saver:
        saver.start(failing)
        raise TrainingError("the numbers went bad")
