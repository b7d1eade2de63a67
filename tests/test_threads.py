"""One setting for the number of threads."""

import os

import pytest

from sr_app import threads
from sr_app.errors import ConfigError


def test_threads_are_the_cores_of_this_process_or_sr_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SR_THREADS", raising=False)
    assert threads.count() == len(os.sched_getaffinity(0))
    monkeypatch.setenv("SR_THREADS", "3")
    assert threads.count() == 3


@pytest.mark.parametrize("wrong", ["0", "-1", "two", "", "1.5", "2000"])
def test_a_wrong_sr_threads_is_an_error(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setenv("SR_THREADS", wrong)
    with pytest.raises(ConfigError, match=r"SR_THREADS is .*it must be a number, 1 to 1024"):
        threads.count()
