"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def sr_data() -> Path:
    """The folder of pictures that can't be shipped with the project (benchmark sets and others)."""
    folder = os.environ.get("SR_DATA")
    if not folder:
        pytest.skip("needs the pictures that SR_DATA names (benchmark sets and others)")
    path = Path(folder)
    if not path.is_dir():
        pytest.fail(f"SR_DATA is {folder}, which is not a folder")
    return path
