#!/usr/bin/env bash
# release build only
# The worked example of CONTRIBUTING.md is formatted, compiles, has a place for its lines, conforms
# and runs: here as a plug-in from outside, without compiling larder again. With LARDER_LONG also as
# the page has it: its files and lines are added to a copy of the tree, and its commands run there.
set -eu
. tests/support/tree.sh
copy_tree "$scratch/tree"
cd "$scratch/tree"

block() { # the text of the fenced blocks with this info string
    awk -v fence="\`\`\`$1" '$0 == fence { on = 1; next } /^```$/ { on = 0 } on' CONTRIBUTING.md
}
fences() { sed -n "s/^\`\`\`c $1=//p" CONTRIBUTING.md; }
quiet() { # what it says if it fails, then the command
    local what=$1
    shift
    "$@" >"$scratch/out" 2>&1 || {
        cat "$scratch/out"
        die "$what"
    }
}

[ "$(fences file)" ] && [ "$(fences line)" ] || die "CONTRIBUTING.md has no worked example"
for file in $(fences file); do
    [ ! -e "$file" ] || die "$file is in the tree already; the example needs another name"
    block "c file=$file" >"$file"
    echo "adds $file, $(wc -l <"$file") lines"
    if command -v clang-format >/dev/null; then
        clang-format "$file" | diff -u "$file" - || die "the example is not formatted"
    fi
    cc -std=gnu17 -D_GNU_SOURCE -Iinclude -Isrc -Wall -Wextra -Wpedantic -Wconversion -Wshadow \
        -Wstrict-prototypes -Werror -fsyntax-only "$file"
done
for file in $(fences line); do
    line=$(block "c line=$file")
    # Beside its siblings: before the first line that starts with the same word.
    awk -v line="$line" '
        index($0, substr(line, 1, index(line, "("))) == 1 && !done { print line; done = 1 }
        { print } END { exit !done }' "$file" >"$scratch/new" || die "no place for $line in $file"
    cp "$scratch/new" "$file"
done
block "sh run" >"$scratch/commands"
[ -s "$scratch/commands" ] || die "CONTRIBUTING.md has no commands to run"

# The suite takes up what is registered, and larder lists and runs it.
for file in $(fences file); do
    cp "$file" "$scratch/clock.c"
    echo 'int larder_plugin_load(void) { return larder_register_policy(&larder__policy_clock); }' \
        >>"$scratch/clock.c"
    cc -std=gnu17 -D_GNU_SOURCE -Iinclude -Isrc -fPIC -shared -o "$scratch/clock.so" "$scratch/clock.c"
done
export LARDER_PLUGINS=$scratch/clock.so
quiet "the example does not conform" "$LARDER_BUILD/test_policies"
runs() { # larder
    "$1" list | grep -w clock || die "larder list does not show the new policy"
    "$1" sim --recipe clock --n 10000 --epochs 3 --batch 100 --cache 20% --seed 1 --json |
        grep -q '"hits"' || die "the new policy does not run"
}
runs "$LARDER"
unset LARDER_PLUGINS
[ "${LARDER_LONG:-}" ] || exit 0

if [ -d "$LARDER_BUILD/core-objects" ]; then # of test_core_long: make compiles what is newer
    mkdir build
    cp -a "$LARDER_BUILD/core-objects" build/core
    # What depends on what is written down with the folder's name; dates stay as they are.
    find build/core -name '*.d' -exec sed -i "s|$LARDER_BUILD/core-objects/|build/core/|" {} +
fi
export CORE_CFLAGS=-O0 # as test_core_long has it
quiet "the commands of CONTRIBUTING.md failed" bash -eux "$scratch/commands"
runs build/core/larder
# The suite takes it up unasked.
# shellcheck disable=SC2046 # names without blanks
cc -std=gnu17 -D_GNU_SOURCE -Iinclude -Isrc -Itests/support -o conform \
    tests/conformance/test_policies.c tests/support/check.c tests/support/cache_kit.c \
    $(find build/core -name '*.o' ! -path '*/cli/*') -lcmocka -lpthread -lm
quiet "the example does not conform" ./conform
