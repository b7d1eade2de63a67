"""Score a network: `python eval.py --help`."""

import sys

from sr_app.cli import main

if __name__ == "__main__":
    sys.exit(main(["eval", *sys.argv[1:]]))
