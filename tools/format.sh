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

ruler='
    /^\/\* ---- .*-+ \*\/$/ {
        line = $0
        sub(/ *-+ \*\/$/, " ", line)
        while (length(line) < 97) line = line "-"
        line = line " */"
        if (check && line != $0) {
            print FILENAME ":" FNR ": a ruler does not end at column 100; run make format"
            bad = 1
        }
        $0 = line
    }
    !check { print }
    END { exit bad }'

if [ "$check" ]; then
    bad=0
    clang-format --dry-run --Werror --ferror-limit=3 "$@" 2>&1 | grep 'error:' && bad=1
    awk -v check=1 "$ruler" "$@" || bad=1
    exit $bad
fi

new=$(mktemp)
again=$(mktemp)
trap 'rm -f "$new" "$again"' EXIT
for file; do
    awk "$ruler" "$file" | clang-format --assume-filename="$file" >"$new"
    # Lists of X-macros settle only after some passes.
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
        cmp -s "$new" "$file" && break
        clang-format --assume-filename="$file" <"$new" >"$again"
        cmp -s "$new" "$again" && break
        cat "$again" >"$new"
    done
    if ! cmp -s "$new" "$file"; then
        cat "$new" >"$file" # keeps the file's mode
        echo "formatted $file"
    fi
done
