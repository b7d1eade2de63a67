"""A file is the old one or the whole new one."""

import errno
import os
from pathlib import Path

import pytest

from sr_app.atomic import replacing


def test_the_new_content_replaces_the_old(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
        assert temporary.parent == path.parent and temporary.suffix == ".txt"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), replacing(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "a.txt", tmp_path / "link.txt"
    link.symlink_to("there/a.txt")
    for content in ("made", "replaced"):  # at first the link leads to nothing
        with replacing(link) as temporary:
            temporary.write_text(content)
        assert link.is_symlink() and target.read_text() == content
    assert list(target.parent.iterdir()) == [target]


def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path) -> None:
    fifo, loop = tmp_path / "fifo", tmp_path / "loop"
    os.mkfifo(fifo)
    loop.symlink_to(loop)
    for path in (fifo, tmp_path):
        with pytest.raises(OSError, match="is not a regular file") as caught, replacing(path):
            pytest.fail("the block ran")
        assert (caught.value.errno, caught.value.filename) == (errno.EINVAL, str(path))
    with pytest.raises(OSError, match="symbolic links"), replacing(loop):
        pytest.fail("the block ran")
    assert fifo.is_fifo() and loop.is_symlink()


@pytest.mark.parametrize(
    "name", ["\N{FROG FACE}" * 62 + ".png", "a" * 251 + ".png", "a." + "é" * 126, "." + "a" * 254]
)
def test_a_name_as_long_as_the_system_allows_can_be_written(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    assert 252 <= len(os.fsencode(name)) <= 255
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert temporary.suffix == ".png" or not name.endswith(".png")
    assert list(tmp_path.iterdir()) == [path]
