"""The mesh of one; those of many are tested with ranks in test_equality.py."""

import pytest

from sr_app.errors import ConfigError, DataError
from sr_app.parallel.mesh import ALONE, mesh


def test_one_process_is_a_mesh_that_needs_no_launcher() -> None:
    assert mesh(0, 1, 1) is ALONE
    assert ALONE.first
    assert ALONE.any(True, False) == (True, False)
    assert ALONE.spread(3, lambda number: number * 2) == [0, 2, 4]
    ALONE.wait()


def test_an_error_alone_is_raised_as_it_is() -> None:
    def fail(number: int) -> int:
        raise DataError("bad")

    with pytest.raises(DataError, match="bad"):
        ALONE.spread(1, fail)


def test_a_tensor_axis_that_does_not_divide_the_ranks_lists_those_that_do() -> None:
    with pytest.raises(ConfigError, match="does not divide the 6 ranks; it can be 1, 2, 3, 6"):
        mesh(0, 6, 4)
