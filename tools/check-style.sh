#!/bin/sh
# What no compiler sees: tabs, blanks at line ends, lines over 100 columns, two files of one name,
# paths of somebody's machine, notes to self. Prints file:line of each.
#
#     tools/check-style.sh [ROOT OF A TREE]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$here/..}"
files=$(LARDER_TREE=. "$here/tracked-files.sh" |
    grep -vE '^tests/(fuzz/corpus|golden)/|^LICENSE$' || true)
bad=0

none() { # what is wrong, pattern, files: prints each place, and remembers
    what=$1 pattern=$2
    shift 2
    [ $# -gt 0 ] || return 0
    if LC_ALL=C.UTF-8 grep -HnIE -e "$pattern" -- "$@" | cut -c1-160 | sed "s/^/$what: /" |
        grep .; then
        bad=1
    fi
}
of() { # the files that match an extended regular expression
    echo "$files" | grep -E "$1" || true
}

tab=$(printf '\t')
# shellcheck disable=SC2046,SC2086 # names have no blanks; the next check sees to it
{
    for file in $(echo "$files" | grep '[[:space:]]' | tr -s '[:space:]' '_'); do
        echo "$file: a blank in a file name"
        bad=1
    done
    none "a tab" "$tab" $(echo "$files" | grep -v -e '\(^\|/\)Makefile$' -e '^debian/rules$')
    none "a blank at the end" '[[:space:]]$' $files
    none "over 100 columns" '^.{101}' $(of '\.([ch]|def)$')
    # The patterns are written so that they do not find themselves.
    none "a path of one machine" '(^|[^[:alnum:]_.)}-])/(wor[k]|roo[t]|hom[e])\b' $files
    none "a note to self" '\b(TOD[O]|FIXM[E]|HAC[K])\b' $files
}

# One name, one file: an include or a stack trace then needs no folder.
echo "$files" | grep -E '\.([ch]|sh|py)$' | awk '
    { name = $0; sub(/.*\//, "", name) }
    name == "__init__.py" || name == "conftest.py" { next }
    name in first { print $0 ": the name of " first[name]; bad = 1; next }
    { first[name] = $0 }
    END { exit bad }' || bad=1
exit $bad
