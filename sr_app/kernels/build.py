"""From `operators.cc` to a library in the cache folder: a few seconds, once.

The library's name is a digest of all that it depends on, so one that fits is used and another is
built. Its last 32 bytes are the SHA-256 of the rest: a damaged file is built again, not loaded.
"""

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from sr_app.atomic import replacing
from sr_app.places import cache_folder

SOURCE = Path(__file__).with_name("operators.cc")
HEADERS = (
    *("convolution.h", "memory.h", "pool.h", "trunk.h", "update.h", "upsampler.h"),
    "winograd.h",
)
COMPILERS = ("g++", "c++", "clang++")
FLAGS = (
    *(
        "-std=c++17",
        "-O2",
        "-ftree-vectorize",
        "-fvect-cost-model=dynamic",
        "-fno-math-errno",
        "-march=native",
    ),
    *("-shared", "-fPIC", "-pthread"),
    "-Wno-psabi",
    # Not to be mixed up with another library's functions, and never unloaded: it has threads.
    *("-fvisibility=hidden", "-Wl,-z,nodelete", "-Wl,--no-undefined"),
)
DIGEST = 32
SECONDS = 120


class UnavailableError(Exception):
    """Our operators can't be used here; says why and what to do about it."""


def built() -> Path:
    """The library, built where the cache doesn't hold it; raises UnavailableError."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise UnavailableError(
            f"our operators are for Linux on x86-64, this is {sys.platform} on {platform.machine()}"
        )
    command = [*compiler(), *FLAGS, str(SOURCE)]
    try:
        folder = cache_folder().resolve() / "kernels"
        folder.mkdir(parents=True, exist_ok=True)
        library = folder / f"operators-{_key(command)}.so"
        if not _whole(library):
            with replacing(library) as temporary:
                _run([*command, "-o", str(temporary)])
                code = temporary.read_bytes()
                temporary.write_bytes(code + hashlib.sha256(code).digest())
    except OSError as error:
        raise UnavailableError(
            f"{error}; SR_CACHE names the folder where the library goes"
        ) from error
    if ":" in str(library):  # MindSpore takes path:function
        raise UnavailableError(
            f"the cache folder's name has a colon: {folder}; set SR_CACHE to another"
        )
    return library


def compiler() -> list[str]:
    """The command that CXX names, or the first compiler of the system."""
    wanted = os.environ.get("CXX", "").split()
    for name in [wanted[0]] if wanted else COMPILERS:
        path = shutil.which(name)
        if path is not None:
            return [path, *wanted[1:]]
    looked_for = f"{wanted[0]}, which CXX names," if wanted else ", ".join(COMPILERS)
    raise UnavailableError(
        f"there is no C++ compiler ({looked_for} not found); install one (Debian and Ubuntu: "
        "apt install g++) or name one in CXX"
    )


def _key(command: list[str]) -> str:
    """A digest of sources, command, compiler, MindSpore and processor."""
    about = [
        *command,
        _run([*compiler(), "--version"]),
        version("mindspore"),
        *[text for text in Path("/proc/cpuinfo").read_text().splitlines() if "flags" in text][:1],
    ]
    digest = hashlib.sha256("\n".join(about).encode())
    for file in (SOURCE, *(SOURCE.with_name(name) for name in HEADERS)):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _whole(library: Path) -> bool:
    if not library.is_file():
        return False
    data = library.read_bytes()
    return hashlib.sha256(data[:-DIGEST]).digest() == data[-DIGEST:]


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"`{shlex.join(command)}` took over {SECONDS} s") from error
    if done.returncode != 0:
        told = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        raise UnavailableError(
            f"{command[0]} failed: {(told or ['no message'])[0]} (it must know C++17; CXX can name "
            "another one)"
        )
    return done.stdout
