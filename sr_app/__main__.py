"""`python -m sr_app COMMAND`."""

import sys

from sr_app.cli import main

if __name__ == "__main__":
    sys.exit(main())
