#!/bin/sh
# Writes docs/guide/plugins.md, the table of all plug-ins with their parameters, from the same list
# that `larder list` prints. --check only compares.
set -eu
cd "$(dirname "$0")/.."
larder=${LARDER:-build/larder}
new=$(mktemp)
trap 'rm -f "$new"' EXIT
"$larder" list --markdown >"$new"
if [ "${1:-}" = --check ]; then
    diff -u docs/guide/plugins.md "$new" || {
        echo "docs/guide/plugins.md is out of date; run make docs" >&2
        exit 1
    }
else
    mkdir -p docs/guide
    cat "$new" >docs/guide/plugins.md
fi
