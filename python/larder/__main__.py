"""The command line program: ``larder`` or ``python -m larder``, and ``demo``, which is in Python."""

import os
import sys

from ._lib import program


def main() -> None:
    if sys.argv[1:2] == ["demo"]:
        from . import _demo

        sys.exit(_demo.main(sys.argv[2:]))
    os.execv(program(), ["larder"] + sys.argv[1:])


if __name__ == "__main__":
    main()
