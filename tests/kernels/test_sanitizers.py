"""`exercise.cc` runs the operators over odd shapes, from threads, in a fork; with sanitizers."""

import subprocess
from pathlib import Path

import pytest

from sr_app.kernels import build

PROGRAM = Path(__file__).with_name("exercise.cc")


@pytest.mark.slow
@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
def test_the_operators_are_right_and_clean(library: Path, sanitizers: str, tmp_path: Path) -> None:
    program = tmp_path / "exercise"
    built = subprocess.run(
        [
            *build.compiler(),
            *("-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"),
            *(f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"),
            *(str(PROGRAM), str(build.SOURCE), "-o", str(program), *build.linked()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    if "cannot find" in built.stderr:
        pytest.skip(f"the compiler comes without its sanitizers' library ({sanitizers})")
    assert built.returncode == 0, built.stderr
    words = (
        [] if sanitizers == "thread" else ["fork"]
    )  # a fork and that sanitizer don't go together
    ran = subprocess.run([str(program), *words], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0 and not ran.stdout + ran.stderr, ran.stderr
