"""What commands share: how options are read and work is shown."""

import argparse
import difflib
from collections.abc import Callable
from typing import Any, Literal

from jsonargparse import ArgumentParser
from tqdm import tqdm

from sr_app.errors import ConfigError

Scale = Literal[2, 3, 4]


def parser_of(name: str, command: Callable[[list[str]], int]) -> ArgumentParser:
    return ArgumentParser(
        prog=f"sr-app {name}", description=command.__doc__, exit_on_error=False, allow_abbrev=False
    )


def parse(parser: ArgumentParser, words: list[str]) -> dict[str, Any]:
    """The options by name, settings as their dataclasses; ConfigError tells a near match."""
    try:
        given: dict[str, Any] = dict(vars(parser.instantiate(parser.parse_args(words))))
    except (TypeError, KeyError) as error:  # jsonargparse's, for a section that is no section
        raise ConfigError(
            "the settings can't be understood: network, batch, optimizer and validation are "
            "sections with settings of their own"
        ) from error
    except argparse.ArgumentError as error:
        message = str(error)
        known = [option for action in parser._actions for option in action.option_strings]
        for word in words:
            option = word.partition("=")[0]
            if option.startswith("-") and option not in known and option in message:
                near = difflib.get_close_matches(option, known, 1)
                message += f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(f"{message}\n{parser.prog} --help lists all options") from error
    given.pop("config", None)
    return given


def follow(bar: "tqdm[Any]") -> Callable[[int, int], None]:
    """A callback of (done, total) that moves the bar."""

    def follow(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)

    return follow
