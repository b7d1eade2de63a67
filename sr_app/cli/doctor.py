"""The command `doctor`."""

from sr_app.cli.options import parse, parser_of


def doctor(words: list[str]) -> int:
    """what the program finds here: versions, device, operators, threads, speed"""
    parse(parser_of("doctor", doctor), words)
    from sr_app.doctor import findings

    for what, found in findings():
        print(f"{what:<14}{found}")
    return 0
