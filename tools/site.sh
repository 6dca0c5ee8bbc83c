#!/bin/sh
# Makes docs/ into a site that needs no server and no network: build/site/index.html, or another
# folder. Warnings are errors, and every link, picture and anchor of the pages is looked at.
#
#     tools/site.sh [FOLDER]
set -eu
cd "$(dirname "$0")/.."
out=${1:-build/site}
python=
for it in python3 /usr/bin/python3; do # Debian's packages belong to the second
    if [ ! "$python" ] && $it -c 'import sphinx, myst_parser, furo' 2>/dev/null; then python=$it; fi
done
if [ ! "$python" ]; then
    echo "site: Sphinx, MyST or Furo is missing; Debian: $(tools/install-packages.sh --print site | tr '\n' ' ')" >&2
    exit 77
fi
rm -rf "$out"
$python -m sphinx -q -W --keep-going -j 2 -c tools/site -d "$out/.cache" . "$out"
rm -rf "$out/.cache" "$out/.buildinfo" "$out/objects.inv"
tools/check-site.py "$out"
