"""`exercise.cc` runs the operators over odd shapes, from threads, in a fork; with sanitizers."""

import subprocess
from pathlib import Path

import pytest

from sr_app import kernels
from sr_app.kernels import build

PROGRAM = Path(__file__).with_name("exercise.cc")


@pytest.mark.slow
@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
@pytest.mark.parametrize("vectors", ["of this processor", "of AVX-512"])
def test_the_operators_are_right_and_clean(
    library: Path, sanitizers: str, vectors: str, tmp_path: Path
) -> None:
    program = tmp_path / "exercise"
    built = subprocess.run(
        [
            *build.compiler(),
            *("-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"),
            *("-march=native", "-Wno-psabi"),  # no warning that some processors' calls differ
            *(["-DSR_WIDE_VECTORS"] if vectors == "of AVX-512" else []),
            *(f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"),
            *(str(PROGRAM), str(build.SOURCE), "-o", str(program)),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    if "cannot find" in built.stderr:
        pytest.skip(f"the compiler comes without its sanitizers' library ({sanitizers})")
    assert built.returncode == 0, built.stderr
    wide = vectors == "of AVX-512" or kernels.instruction_set(library) == "AVX-512"
    words = ["16" if wide else "8"]
    if sanitizers != "thread":  # with which a fork doesn't go together
        words.append("fork")
    ran = subprocess.run([str(program), *words], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0 and not ran.stdout + ran.stderr, ran.stderr
