"""The command line program: ``larder`` or ``python -m larder``."""

import os
import sys

from ._lib import program


def main() -> None:
    os.execv(program(), ["larder"] + sys.argv[1:])


if __name__ == "__main__":
    main()
