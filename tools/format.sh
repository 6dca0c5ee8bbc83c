#!/bin/sh
# Formats all C of the tree (or the files named), or with --check only says which files differ.
# Besides clang-format it draws the rulers between the parts of a file to 100 columns.
set -eu
cd "$(dirname "$0")/.."
check=
if [ "${1:-}" = --check ]; then
    check=1
    shift
fi
if [ $# -eq 0 ]; then
    # shellcheck disable=SC2046 # file names of this tree have no blanks; check-style.sh sees to it
    set -- $(tools/tracked-files.sh '*.c' '*.h')
fi
[ $# -gt 0 ] || exit 0
command -v clang-format >/dev/null || {
    echo "format: clang-format is missing; run tools/install-packages.sh lint" >&2
    exit 1
}

rulers() {
    awk '/^\/\* ---- .*-+ \*\/$/ {
             title = $0
             sub(/^\/\* ---- /, "", title)
             sub(/ *-+ \*\/$/, "", title)
             line = "/* ---- " title " "
             while (length(line) < 97) line = line "-"
             $0 = line " */"
         } { print }' "$1"
}

new=$(mktemp)
again=$(mktemp)
trap 'rm -f "$new" "$again"' EXIT

formatted() { # file: into $new. Lists of X-macros settle only after some passes.
    rulers "$1" | clang-format --assume-filename="$1" >"$new"
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
        clang-format --assume-filename="$1" <"$new" >"$again"
        cmp -s "$new" "$again" && break
        cat "$again" >"$new"
    done
}

bad=0
for file; do
    formatted "$file"
    cmp -s "$new" "$file" && continue
    if [ "$check" ]; then
        echo "$file: not formatted as .clang-format says; run make format"
        bad=1
    else
        cat "$new" >"$file" # keeps the file's mode
        echo "formatted $file"
    fi
done
exit $bad
