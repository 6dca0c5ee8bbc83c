#!/usr/bin/env bash
# Sourced by tests that build a copy of the tree.

# copy_tree FOLDER: what git tracks or would track, with nothing that was built.
copy_tree() {
    mkdir -p "$1"
    tools/tracked-files.sh | tar -cf - -T - | tar -xf - -C "$1"
}

# bare_path FOLDER: fills it so that PATH=FOLDER offers a C compiler, make, a shell and the few
# commands of coreutils that a Makefile needs, and nothing else.
bare_path() {
    mkdir -p "$1"
    local tool
    for tool in cc as ld make sh mkdir rm; do
        printf '#!/bin/sh\nexec %s "$@"\n' "$(command -v $tool)" >"$1/$tool"
        chmod +x "$1/$tool"
    done
}

# A scratch folder that is removed at the end.
scratch=$(mktemp -d "${TMPDIR:-/tmp}/larder-test-XXXXXX")
trap 'rm -rf "$scratch"' EXIT

die() {
    echo "$*" >&2
    exit 1
}
