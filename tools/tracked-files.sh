#!/bin/sh
# Prints the files of the tree, one a line: what git tracks or would track, or, in an unpacked
# archive without git, everything but build output. Arguments are patterns such as '*.c'.
set -eu
root=${LARDER_TREE:-$(dirname "$0")/..}
cd "$root"
if git rev-parse --is-inside-work-tree >/dev/null 2>&1 && [ -e .git ]; then
    git ls-files --cached --others --exclude-standard -- "$@"
else
    find . -type f ! -path './build/*' ! -path './report/*' ! -path './dist/*' ! -path './.git/*' ! -path '*/__pycache__/*' |
        sed 's|^\./||' |
        if [ $# -eq 0 ]; then cat; else
            while read -r file; do
                for pattern; do
                    # shellcheck disable=SC2254 # the pattern is meant as one
                    case $file in $pattern) echo "$file" && break ;; esac
                done
            done
        fi
fi | while read -r file; do
    if [ -f "$file" ]; then echo "$file"; fi # deleted but not yet committed ones are left out
done | sort
