"""Where a number comes from: the program's commit, versions, the machine, a file's content."""

import contextlib
import hashlib
import os
import platform
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
PACKAGES = ("sr_app", "mindspore", "numpy", "scipy", "opencv-python-headless", "pillow")


def origin(packages: Sequence[str] = PACKAGES) -> dict[str, Any]:
    """For JSON: `commit`, `versions` of Python and those packages that are there, `machine`."""
    found = {"python": platform.python_version(), **versions(packages)}
    return {"commit": commit(), "versions": found, "machine": machine()}


def commit() -> str | None:
    """The program's commit, with -changed where its code differs from that; None without git."""
    if not (PROJECT / ".git").exists():  # installed: a repository around it would be another's
        return None
    try:
        name = _git("rev-parse", "HEAD").strip()
        changed = _git("status", "--porcelain", "--", "sr_app", "benchmarks")
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{name}-changed" if changed else name


def versions(packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    """Versions by name, of those that are there."""
    found = {}
    for package in packages:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def machine() -> dict[str, Any]:
    """The processor's name and its number of cores."""
    return {"processor": processor(), "cores": os.cpu_count()}


def processor() -> str:
    """The processor's name, from Linux where it tells."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(": ")[1] for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()


def sha256(path: Path) -> str:
    """A file's digest, in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _git(*words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(PROJECT), *words], capture_output=True, text=True, timeout=10, check=True
    )
    return done.stdout
