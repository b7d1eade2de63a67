"""Where the program keeps its own files."""

import os
from pathlib import Path

import platformdirs


def cache_folder() -> Path:
    """The folder that SR_CACHE names, or the user's cache folder of this system."""
    folder = os.environ.get("SR_CACHE")
    return Path(folder) if folder else platformdirs.user_cache_path("sr_app")
