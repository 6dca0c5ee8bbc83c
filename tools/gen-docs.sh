#!/bin/sh
# Writes docs/plugins.md, the table of all plug-ins with their parameters, from the same list that
# `larder list` prints. --check only compares.
set -eu
cd "$(dirname "$0")/.."
larder=${LARDER:-build/larder}
new=$(mktemp)
trap 'rm -f "$new"' EXIT
"$larder" list --markdown >"$new"
if [ "${1:-}" = --check ]; then
    diff -u docs/plugins.md "$new" || {
        echo "docs/plugins.md is out of date; run make docs" >&2
        exit 1
    }
else
    mkdir -p docs
    cat "$new" >docs/plugins.md
fi
