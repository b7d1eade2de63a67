"""The library is built once, again when what it depends on changes, and when it is damaged."""

from pathlib import Path

import pytest

from sr_app.kernels import build
from sr_app.kernels.build import UnavailableError, built


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: Path) -> Path:
    """An empty cache folder and small sources, on a machine that has a compiler (`library`)."""
    sources = tmp_path / "sources"
    sources.mkdir()
    monkeypatch.setattr(build, "SOURCE", sources / build.SOURCE.name)
    build.SOURCE.write_text("int answer = 42;\n")
    for name in build.HEADERS:
        build.SOURCE.with_name(name).touch()
    monkeypatch.setenv("SR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def compilations(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that compile, as they are run."""
    commands: list[list[str]] = []
    run = build._run

    def noting(command: list[str]) -> str:
        if "-o" in command:
            commands.append(command)
        return run(command)

    monkeypatch.setattr(build, "_run", noting)
    return commands


def test_a_library_is_built_once(monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    commands = compilations(monkeypatch)
    library = built()
    assert built() == library and len(commands) == 1
    assert list((own_cache / "kernels").iterdir()) == [library]


def test_another_is_built_when_a_source_the_compiler_or_mindspore_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commands = compilations(monkeypatch)
    libraries = [built()]

    for name in (build.SOURCE.name, *build.HEADERS):
        with build.SOURCE.with_name(name).open("a") as file:
            file.write("// changed\n")
        libraries.append(built())

    compiler = tmp_path / "g++"
    compiler.write_text(f'#!/bin/sh\nexec {build.compiler()[0]} "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    libraries.append(built())
    monkeypatch.setattr(build, "version", lambda name: "2.10.9")
    libraries.append(built())
    count = 1 + 1 + len(build.HEADERS) + 1 + 1  # the first, each source, the compiler, MindSpore
    assert len(set(libraries)) == len(libraries) == len(commands) == count


@pytest.mark.parametrize("damage", ["truncated", "emptied", "changed"])
def test_a_damaged_library_is_built_again(monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    library = built()
    whole = library.read_bytes()
    kept = {"truncated": len(whole) // 2, "emptied": 0, "changed": len(whole)}[damage]
    data = bytearray(whole[:kept])
    if damage == "changed":
        data[len(data) // 2] ^= 1
    library.write_bytes(data)
    commands = compilations(monkeypatch)
    assert built() == library and len(commands) == 1
    assert build._whole(library)


def test_without_a_compiler_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match=r"no C\+\+ compiler .*apt install g\+\+"):
        built()


def test_a_compiler_that_cxx_names_in_vain_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler -v")
    with pytest.raises(UnavailableError, match="no-such-compiler, which CXX names, not found"):
        built()


def test_what_the_compiler_says_is_told(own_cache: Path) -> None:
    build.SOURCE.write_text("int broken(\n")
    with pytest.raises(UnavailableError, match=r"failed: .*operators\.cc.*error.*CXX can name"):
        built()
    assert not list((own_cache / "kernels").iterdir())


def test_a_compiler_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiler = tmp_path / "slow"
    compiler.write_text("#!/bin/sh\nexec sleep 30\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setattr(build, "SECONDS", 0.1)
    with pytest.raises(UnavailableError, match=r"slow --version` took over 0\.1 s"):
        built()


def test_a_cache_folder_that_cannot_be_made_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SR_CACHE", "/proc/self/no-such-folder")
    with pytest.raises(UnavailableError, match=r"no-such-folder.*; SR_CACHE names the folder"):
        built()


def test_a_cache_folder_with_a_colon_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SR_CACHE", str(tmp_path / "a:b"))
    with pytest.raises(UnavailableError, match="has a colon"):
        built()


def test_another_architecture_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build.platform, "machine", lambda: "aarch64")
    with pytest.raises(UnavailableError, match="for Linux on x86-64, this is linux on aarch64"):
        built()
