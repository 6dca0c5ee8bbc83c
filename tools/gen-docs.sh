#!/bin/sh
# Writes the pages of docs that the program itself prints: docs/guide/plugins.md, all plug-ins with
# their parameters, and docs/guide/environment.md, all environment variables. --check only compares.
set -eu
cd "$(dirname "$0")/.."
larder=${LARDER:-build/larder}
how=${1:-}
new=$(mktemp)
trap 'rm -f "$new"' EXIT
page() { # FILE WORDS...
    file=$1
    shift
    "$larder" "$@" >"$new"
    if [ "$how" != --check ]; then
        mkdir -p "$(dirname "$file")"
        cat "$new" >"$file"
        return
    fi
    diff -u "$file" "$new" || {
        echo "$file is out of date; run make docs" >&2
        exit 1
    }
}
page docs/guide/plugins.md list --markdown
page docs/guide/environment.md help environment --markdown
