"""The command line program: ``larder`` or ``python -m larder``, and ``demo``, which is in Python."""

import os
import signal
import sys

from ._lib import program


def main() -> None:
    if sys.argv[1:2] == ["demo"]:
        from . import _demo

        sys.exit(_demo.main(sys.argv[2:]))
    if sys.argv[1:2] == ["doctor"]:  # of whose Python it tells: this one
        os.environ["PATH"] = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)))
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python; a program of C ends by them without a word
        signal.signal(ignored, signal.SIG_DFL)
    os.execv(program(), ["larder"] + sys.argv[1:])


if __name__ == "__main__":
    main()
