"""Checks of settings that come from files and command lines: their types, then their ranges."""

import math
from dataclasses import fields
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from sr_app.errors import ConfigError


def require_types(settings: Any, section: str) -> None:
    """ConfigError that names the key unless each field of a dataclass holds what its type says.

    Exactly: no bool for an int, no null where none is meant, no inf or nan. An int will do for a
    float. `section` is the prefix of the keys, like `network.`.
    """
    hints = get_type_hints(type(settings))
    for each in fields(settings):
        value = getattr(settings, each.name)
        if not _fits(value, hints[each.name]):
            wanted = str(getattr(hints[each.name], "__name__", hints[each.name]))
            raise ConfigError(
                f"{section}{each.name} must be {wanted.replace('typing.', '')}, got {value!r}"
            )


def require_within(key: str, value: float, least: float, most: float = math.inf) -> None:
    """ConfigError that names the key unless least <= value <= most."""
    if not value >= least:
        raise ConfigError(f"{key} must be at least {least}, got {value}")
    if not value <= most:
        raise ConfigError(f"{key} must be at most {most}, got {value}")


def require_above_zero(key: str, value: float) -> None:
    """ConfigError that names the key unless value > 0."""
    if not value > 0:
        raise ConfigError(f"{key} must be above 0, got {value}")


def _fits(value: Any, hint: Any) -> bool:
    kind = get_origin(hint)
    if kind in (Union, UnionType):
        return any(_fits(value, each) for each in get_args(hint))
    if kind is tuple:  # of any length, all of one type
        return type(value) is tuple and all(_fits(each, get_args(hint)[0]) for each in value)
    if kind is Literal:
        return any(type(value) is type(each) and value == each for each in get_args(hint))
    if hint is float:
        return type(value) in (int, float) and math.isfinite(value)
    return type(value) is hint
