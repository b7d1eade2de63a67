"""The command `check-data`."""

from tqdm import tqdm

from sr_app.cli.options import Scale, follow, parse, parser_of
from sr_app.data import folders


def check_data(words: list[str]) -> int:
    """look at a set before training on it: pairs, sizes, bad files, what is missing"""
    parser = parser_of("check-data", check_data)
    parser.add_argument("data", type=str, help="a name, a folder, several joined by +")
    parser.add_argument("--scale", type=Scale, default=2, help="2, 3 or 4")
    given = parse(parser, words)
    with tqdm(desc=given["data"], unit="picture", disable=None) as bar:
        report = folders.check(given["data"], given["scale"], progress=follow(bar))
    print(report)
    return 0 if report.ok else 2
