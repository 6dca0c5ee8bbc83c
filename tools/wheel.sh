#!/bin/sh
# Builds dist/larder-*.whl, which any x86-64 Linux with a C library of the tag's age takes: `make wheel`.
#
#     tools/wheel.sh [FOLDER]
#
# Without TIFF: Debian's libtiff needs a library under the GPL alone, and C++'s. Pillow opens such files
# (Loader(pil=True)). GLIBC=2.34 is the newest C library that may be asked for.
set -eu
cd "$(dirname "$0")/.."
out=${1:-dist}
tools/configure.sh wheel
flags=$(sed -n 's/.* -\(march\|mcpu\|mavx\|mfma\|mf16c\)\([^ ]*\).*/-\1\2/p' build/wheel/compile_commands.json | sort -u)
if [ "$flags" ]; then
    echo "wheel: compiled with $flags, which not every processor has" >&2
    exit 1
fi
cmake --build build/wheel --target larder larder_shared
tools/bundle.py "$(readlink -f build/wheel/liblarder.so)" build/wheel/larder "$out" --glibc "${GLIBC:-2.34}"
