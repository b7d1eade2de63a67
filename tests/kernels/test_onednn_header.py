"""Our declarations of oneDNN's functions against oneDNN's own headers, which PyTorch ships."""

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

from sr_app.kernels import build

OURS = build.SOURCE.with_name("onednn.h").read_text()


def test_our_declarations_are_those_of_onednn(tmp_path: Path) -> None:
    """Types and functions are declared a second time, which C++ allows for equal ones only; the
    values of enumerations and the places of structures' members are compared."""
    torch = importlib.util.find_spec("torch")
    if torch is None or not torch.submodule_search_locations:
        pytest.skip("needs PyTorch, for the headers in it: pip install -e '.[convert]'")
    headers = Path(torch.submodule_search_locations[0]) / "include"

    enums = re.findall(r"\b([dD][nN]{2}[lL]_\w+) = (\d+)", OURS)
    structs = re.findall(r"^typedef struct \{([^}]*)\} (\w+);", OURS, re.MULTILINE)
    types = re.findall(r"^typedef (?!enum|struct \{).*;", OURS, re.MULTILINE)
    functions = re.findall(r"^(?:const )?\w+\*? dnnl_\w+\([^;]*;", OURS, re.MULTILINE)
    assert (len(enums), len(structs), len(types), len(functions)) == (21, 2, 12, 25)

    lines = [
        "#include <cstddef>",
        "#include <oneapi/dnnl/dnnl.h>",
        "#include <oneapi/dnnl/dnnl_threadpool.h>",
        *('extern "C" {', *types, *functions, "}"),
        *(f"static_assert({name} == {value});" for name, value in enums),
    ]
    for body, name in structs:
        lines.append(f"struct our_{name} {{ {body} }};")
        for member in re.findall(r"(\w+)[,;]", body):
            lines.append(
                f"static_assert(offsetof({name}, {member}) == offsetof(our_{name}, {member}));"
            )
    check = tmp_path / "check.cc"
    check.write_text("\n".join(lines) + "\n")
    done = subprocess.run(
        [*build.compiler(), "-std=c++17", "-fsyntax-only", f"-I{headers}", str(check)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
