"""From a word on the command line to HR and LR files: the layouts that sets come in.

A set is named by a word (`sample`, or a folder below `data/` or below the folder that the
environment variable SR_DATA names, also below their train/ and benchmarks/), by a path to its
folder or to its folder's parent, or by several of these joined with `+`. data/README.md draws the
layouts:

    DIV2K_train_HR, DIV2K_valid_HR, DIV2K_train_LR_bicubic/X2   pictures with a split of their own
    Flickr2K_HR, Flickr2K_LR_bicubic/X2                         no split
    HR, LR_bicubic/X2                                           benchmark sets, no split
    *.png, *.jpg, ...                                           a plain folder, no split

A set without a split gives all its pictures for training and for validation: name another set to
validate on. Only names are read here, never a file.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from sr_app.errors import DataError
from sr_app.image.files import is_picture_name

Split = Literal["train", "valid"]
FilePair = tuple[Path, Path | None]
"""An HR file and its LR file, None where LR is made from HR."""

SAMPLE = "sample"
SAMPLE_TRAIN = ("astronaut.png", "hubble_deep_field.jpg", "retina.jpg", "rocket.jpg")
SAMPLE_VALID = ("chelsea.png", "coffee.png")
DIV2K_VALID = range(801, 901)  # the numbers of DIV2K's validation pictures

_GROUPS = ("train", "benchmarks")  # folders of sets that are searched too, below data/ and SR_DATA
_HIGH_FOLDER = re.compile(r"(?:(?P<name>.+?)_)??(?:(?P<split>train|valid)_)?HR")
_LOW_FOLDER = re.compile(r"(?:.*_)?LR(?:_.*)?")
_EXPECTED = "expected pictures, or folders NAME_train_HR and NAME_valid_HR, NAME_HR, or HR"


@dataclass(frozen=True)
class Layout:
    """A set's HR folders by split; `all` is for sets without a split.

    `name` is the word before _train_HR; the set in DIV2K_crops has DIV2K for it.
    """

    name: str
    folder: Path
    highs: dict[str, Path]

    @property
    def title(self) -> str:
        """What people call this set: its folder's name, unless that has nothing to do with it."""
        here = self.folder.absolute().name
        return here if self.name in here else self.name

    @property
    def is_plain(self) -> bool:
        return self.highs.get("all") == self.folder

    @property
    def spec(self) -> str:
        """What to type to mean this set."""
        is_named = all(high.name.startswith(f"{self.name}_") for high in self.highs.values())
        return str(self.folder / self.name if is_named and not self.is_plain else self.folder)


def parts(spec: str, root: Path) -> list[Layout | None]:
    """The sets that `spec` joins, None for the embedded one; DataError for an unknown name."""
    if spec == SAMPLE:
        return [None]
    layout = _locate(spec, root)
    if layout is not None:
        return [layout]
    if "+" in spec:
        return [part for name in spec.split("+") for part in parts(name, root)]
    raise _unknown(spec, root)


def _searched(root: Path) -> list[Path]:
    """The folders in which names are looked up, in order."""
    roots = [root] + [Path(folder) for folder in [os.environ.get("SR_DATA")] if folder]
    return [base / group for base in roots for group in ("", *_GROUPS)]


def _locate(spec: str, root: Path) -> Layout | None:
    """The set that a name (looked up in the search folders first) or a path means, if any."""
    path = Path(spec).expanduser()
    is_name = bool(path.parts) and not path.is_absolute() and not spec.startswith(".")
    candidates = [folder / path for folder in _searched(root)] if is_name else []
    for candidate in [*candidates, path] if spec else []:
        if is_folder(candidate):
            return _only_layout(candidate)
        beside = _layouts(candidate.parent) if is_folder(candidate.parent) else []
        for layout in beside:  # DIV2K_train_HR unzipped straight into data/
            if layout.name == candidate.name and not layout.is_plain:
                return layout
    return None


def _only_layout(folder: Path) -> Layout:
    """The one set in `folder` or in one of its subfolders; DataError if there is none, or more."""
    found = _layouts_near(folder)
    if not found:
        raise _no_pictures(folder, _EXPECTED)
    if len(found) > 1:
        raise DataError(
            f"{folder} holds several sets: {_listed([layout.title for layout in found])}. "
            f"Say which, such as {found[0].spec}, or join them with +."
        )
    only = found[0]
    return replace(only, name=folder.absolute().name) if only.is_plain else only


def _layouts_near(folder: Path) -> list[Layout]:
    """The sets in `folder`; if there are none, those in its subfolders, plain ones last."""
    here = _layouts(folder)
    if here:
        return here
    children = [c for c in _entries(folder) if is_folder(c) and not _LOW_FOLDER.fullmatch(c.name)]
    below = [layout for child in children for layout in _layouts(child)]
    return [layout for layout in below if not layout.is_plain] or below


def _layouts(folder: Path) -> list[Layout]:
    """The sets whose HR folders lie right in `folder`, or else the plain folder itself."""
    name_here = folder.absolute().name
    highs: dict[str, dict[str, Path]] = {}
    for child in _entries(folder):
        match = _HIGH_FOLDER.fullmatch(child.name)
        if match and is_folder(child):
            highs.setdefault(match["name"] or name_here, {})[match["split"] or "all"] = child
    if not highs and _pictures(folder):
        highs[name_here] = {"all": folder}
    return [Layout(name, folder, splits) for name, splits in highs.items()]


def has_split(spec: str, split: Split, root: Path = Path("data")) -> bool:
    """Whether `find` would find pictures, whatever their LR may be."""
    try:
        return all(_highs(part, split) for part in parts(spec, root))
    except DataError:
        return False


def set_names(root: Path = Path("data")) -> tuple[str, ...]:
    """The names that `find` knows without a path: `sample` and what lies in the folders."""
    names = {SAMPLE}
    for folder in filter(is_folder, _searched(root)):
        names.update(layout.name for layout in _layouts(folder) if not layout.is_plain)
        children = filter(is_folder, _entries(folder))
        names.update(c.name for c in children if c.name not in _GROUPS and _layouts_near(c))
    return tuple(sorted(names, key=natural_key))


def natural_key(text: str) -> list[tuple[int, str]]:
    """A sort key by which img2 comes before img10."""
    return [(int(p), "") if p.isdecimal() else (-1, p) for p in re.split(r"(\d+)", text) if p]


# --- from a layout to pairs of files ------------------------------------------------------------


def pairs(part: Layout | None, scale: int, split: Split) -> list[FilePair]:
    """(HR, LR or None) of one split of one set, by natural name."""
    highs = _highs(part, split)
    folder = None if part is None else _low_folder(_high_folder(part, split), scale)
    return [(high, None) for high in highs] if folder is None else _paired(highs, folder, scale)


def _highs(part: Layout | None, split: Split) -> list[Path]:
    """The HR pictures of one split of one set, never none."""
    if part is None:
        return _sample_files(split)
    folder = _high_folder(part, split)
    files = _pictures(folder)
    if not files:
        raise _no_pictures(folder, f"expected the HR pictures of {part.title}")
    if _is_div2k(part) and folder == part.highs.get("train"):
        files = [file for file in files if _is_div2k_valid(file) == (split == "valid")]
        if not files:
            raise _no_split(part, split)
    return files


def _high_folder(layout: Layout, split: Split) -> Path:
    folder = layout.highs.get(split, layout.highs.get("all"))
    if folder is None and split == "valid" and _is_div2k(layout):
        return layout.highs["train"]  # EDSR-PyTorch's layout: 0001-0900 in DIV2K_train_HR
    if folder is None:
        raise _no_split(layout, split)
    return folder


def _sample_files(split: Split) -> list[Path]:
    """The colour photographs in scikit-image's wheel that are CC0 or in the public domain."""
    package = importlib.util.find_spec("skimage")
    if package is None or not package.submodule_search_locations:
        raise DataError("the embedded set `sample` needs scikit-image: run `make setup`")
    folder = Path(package.submodule_search_locations[0]) / "data"
    files = [folder / name for name in (SAMPLE_TRAIN if split == "train" else SAMPLE_VALID)]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise DataError(
            f"the embedded set `sample` needs {', '.join(missing)} in {folder}: this scikit-image "
            "lacks them. Run `make setup`, or pip install 'scikit-image>=0.24,<0.27'."
        )
    return files


def _is_div2k(layout: Layout) -> bool:
    return layout.name.startswith("DIV2K")


def _is_div2k_valid(file: Path) -> bool:
    return file.stem.isdecimal() and int(file.stem) in DIV2K_VALID


def _low_folder(highs: Path, scale: int) -> Path | None:
    """The folder of LR pictures that belongs to a folder of HR pictures, None if LR is to be made.

    DataError if there are LR pictures, but of other scales only.
    """
    if not highs.name.endswith("HR"):
        return None
    lows = highs.with_name(f"{highs.name[:-2]}LR_bicubic")
    unzipped = lows.with_name(f"{lows.name}_X{scale}")  # unzip -d NAME NAME.zip
    for folder in (lows / f"X{scale}", unzipped / lows.name / f"X{scale}", unzipped):
        if is_folder(folder):
            return folder
    if is_folder(lows):
        raise DataError(
            f"{lows} holds no folder X{scale}, only {_listed([e.name for e in _entries(lows)])}. "
            f"Put the LR pictures of scale {scale} there, or move {lows.name} away: LR is then "
            "made from HR."
        )
    return None


def _paired(highs: Sequence[Path], folder: Path, scale: int) -> list[FilePair]:
    """Each HR picture 0001.png with its LR picture 0001x2.png (or 0001.png) in `folder`."""
    _require_distinct_stems(highs)
    found = _pictures(folder)
    _require_distinct_stems(found)
    by_stem = {low.stem: low for low in found}
    lows = [by_stem.get(f"{h.stem}x{scale}") or by_stem.get(h.stem) for h in highs]
    missing = [high for high, low in zip(highs, lows, strict=True) if low is None]
    if missing:
        first = missing[0]
        raise DataError(
            f"{len(missing)} of {len(highs)} HR pictures have no LR picture at scale {scale}: "
            f"{_listed([file.name for file in missing])}. For {first} expected "
            f"{folder / f'{first.stem}x{scale}{first.suffix}'}; found {len(found)} pictures in "
            f"that folder. Complete it, or move it away to have LR made from HR."
        )
    return list(zip(highs, lows, strict=True))


def _require_distinct_stems(files: Sequence[Path]) -> None:
    seen: dict[str, Path] = {}
    for file in files:
        other = seen.setdefault(file.stem, file)
        if other is not file:
            raise DataError(
                f"{other} and {file.name} differ only in their endings, so it is not clear which "
                "belongs to an HR or LR picture of that name. Remove or rename one."
            )


def _pictures(folder: Path) -> list[Path]:
    """The pictures right in `folder`, or in NAME/NAME as some programs unzip, by natural name."""
    entries = _entries(folder)
    nested = folder / folder.name
    if nested in entries and is_folder(nested) and not any(map(_is_picture, entries)):
        entries = _entries(nested)
    return sorted(filter(_is_picture, entries), key=lambda file: natural_key(file.name))


def _is_picture(path: Path) -> bool:
    """By its name; a broken link or a pipe too, so that it is told and not overlooked."""
    return is_picture_name(path) and not is_folder(path)


def is_folder(path: Path) -> bool:
    """As Path.is_dir, but False for what can't be looked at (a name too long, no rights)."""
    with contextlib.suppress(OSError):
        return path.is_dir()
    return False


def is_file(path: Path) -> bool:
    """As Path.is_file, but False for what can't be looked at (a name too long, no rights)."""
    with contextlib.suppress(OSError):
        return path.is_file()
    return False


def _entries(folder: Path) -> list[Path]:
    """What lies in `folder`, sorted, but for hidden entries such as ._0001.png."""
    try:
        return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        raise DataError(f"can't list the folder {folder}: {error.strerror}") from error


# --- what is told when something is missing -----------------------------------------------------


def _unknown(spec: str, root: Path) -> DataError:
    if is_file(Path(spec)):
        return DataError(f"{spec} is a file: give the folder that holds the pictures")
    names = set_names(root)
    by_folded = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(spec.casefold(), by_folded, n=1, cutoff=0.5)
    hint = f" Did you mean {by_folded[near[0]]}?" if near else ""
    searched = [str(folder) for folder in _searched(root)]
    return DataError(
        f"there is no set or folder {spec!r}.{hint} Known here: {', '.join(names)}. Searched: "
        f"{', '.join(searched)}. A path to a folder works too; data/README.md shows the layouts."
    )


def _no_pictures(folder: Path, expected: str) -> DataError:
    found = _listed([entry.name for entry in _entries(folder)])
    return DataError(f"no pictures in {folder}: {expected}; found {found}")


def _no_split(layout: Layout, split: Split) -> DataError:
    word = {"train": "training", "valid": "validation"}[split]
    numbers = " (or 0801-0900 in its train folder)" if split == "valid" else ""
    found = _listed([folder.name for folder in layout.highs.values()])
    return DataError(
        f"{layout.title} in {layout.folder} has no {word} pictures: expected "
        f"{layout.name}_{split}_HR{numbers}; found {found}. Add them, or name another set for "
        f"{word}."
    )


def _listed(names: Sequence[str], most: int = 5) -> str:
    """'a, b, c and 7 more', or 'nothing'."""
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest if names else "nothing"
