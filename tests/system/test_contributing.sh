#!/usr/bin/env bash
# release build only
# The worked example of CONTRIBUTING.md builds and runs: its files and lines are added to a copy of
# the tree, and its commands are run there.
set -eu
. tests/support/tree.sh
copy_tree "$scratch/tree"
if [ -d "$LARDER_BUILD/core-objects" ]; then # of test_core: make compiles what is newer
    mkdir "$scratch/tree/build"
    cp -a "$LARDER_BUILD/core-objects" "$scratch/tree/build/core"
fi
cd "$scratch/tree"

block() { # the text of the fenced blocks with this info string
    awk -v fence="\`\`\`$1" '$0 == fence { on = 1; next } /^```$/ { on = 0 } on' CONTRIBUTING.md
}
fences() { sed -n "s/^\`\`\`c $1=//p" CONTRIBUTING.md; }

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
export CORE_CFLAGS=-O0 # as test_core has it
bash -eux "$scratch/commands" >"$scratch/out" 2>&1 || {
    cat "$scratch/out"
    die "the commands of CONTRIBUTING.md failed"
}
build/core/larder list | grep -w clock || die "larder list does not show the new policy"
build/core/larder sim --recipe clock --n 10000 --epochs 3 --batch 100 --cache 20% --seed 1 --json |
    grep -q '"hits"'

# The conformance suite takes it up unasked.
# shellcheck disable=SC2046 # names without blanks
cc -std=gnu17 -D_GNU_SOURCE -Iinclude -Isrc -Itests/support -o conform \
    tests/conformance/test_policies.c tests/support/check.c tests/support/cache_kit.c \
    $(find build/core -name '*.o' ! -path '*/cli/*') -lcmocka -lpthread -lm
./conform >"$scratch/out" 2>&1 || {
    cat "$scratch/out"
    die "the example does not conform"
}
