"""Train a network: `python train.py --help`."""

import sys

from sr_app.cli import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))
