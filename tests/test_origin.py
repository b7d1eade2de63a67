"""Where numbers come from."""

import hashlib
import subprocess
from pathlib import Path

import pytest

from sr_app import origin


def test_the_digest_is_that_of_the_bytes(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"0123456789" * 200_000)  # more than is read at once
    assert origin.sha256(file) == hashlib.sha256(file.read_bytes()).hexdigest()


def test_the_commit_says_whether_the_code_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", *who, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    monkeypatch.setattr(origin, "PROJECT", tmp_path)
    (tmp_path / "sr_app").mkdir()
    (tmp_path / "sr_app" / "a.py").write_text("1")
    (tmp_path / "README.md").write_text("1")
    assert origin.commit() is None
    git("init")
    assert origin.commit() is None  # there is none yet
    git("add", ".")
    git("commit", "-m", "one")
    head = git("rev-parse", "HEAD")
    assert origin.commit() == head
    (tmp_path / "README.md").write_text("2")
    assert origin.commit() == head
    (tmp_path / "sr_app" / "a.py").write_text("2")
    assert origin.commit() == f"{head}-changed"


def test_versions_and_machine_are_told() -> None:
    found = origin.origin()
    assert found["versions"]["numpy"].count(".") == 2
    assert "no-such-package" not in origin.versions(("no-such-package",))
    assert found["machine"]["processor"] and found["machine"]["cores"] >= 1
