#!/usr/bin/env bash
# release build only
# The checks of make lint find what they are there for, and pass what is right.
set -eu
. tests/support/tree.sh
tree=$scratch/tree
mkdir -p "$tree/src/base" "$tree/src/cache/policy" "$tree/src/loader" "$tree/src/sample" \
    "$tree/include/larder"
echo '#include <stddef.h>' >"$tree/include/larder/larder.h"
echo '#include <larder/larder.h>' >"$tree/src/base/err.h"
echo '#include "base/err.h"' >"$tree/src/plugins.h"
printf '#include "base/err.h"\n#include "plugins.h"\n' >"$tree/src/cache/cache.h"
echo '#include "cache/cache.h"' >"$tree/src/cache/policy/lru.c"
echo '#include "base/err.h"' >"$tree/src/sample/uniform.h"
printf '#include "cache/cache.h"\n#include "sample/uniform.h"\n' >"$tree/src/loader/loader.c"

must_pass() { "$@" >"$scratch/out" 2>&1 || { cat "$scratch/out"; die "failed: $*"; }; }
must_say() { # text, command: fails and says the text
    local text=$1
    shift
    if "$@" >"$scratch/out" 2>&1; then die "passed, but should say $text: $*"; fi
    grep -qF -e "$text" "$scratch/out" || { cat "$scratch/out"; die "does not say $text: $*"; }
}
violation() { # file, its text, what must be said
    cp "$tree/$1" "$scratch/kept" 2>/dev/null || : >"$scratch/kept"
    mkdir -p "$(dirname "$tree/$1")"
    printf '%s\n' "$2" >>"$tree/$1"
    must_say "$3" "$check" "$tree"
    if [ -s "$scratch/kept" ]; then cp "$scratch/kept" "$tree/$1"; else rm "$tree/$1"; fi
}

check=tools/check-layers.sh
must_pass $check "$tree"
violation src/sample/uniform.h '#include "cache/cache.h"' 'src/sample/uniform.h:2: sample includes'
violation src/cache/policy/lru.c '#include "../../sample/uniform.h"' 'cache includes'
violation src/cache/policy/lru.c '# include <sample/uniform.h>' 'cache includes'
violation src/base/err.h '#include "cache/cache.h"' 'base includes'
violation src/base/err.h '#include "plugins.h"' 'base includes'
violation src/plugins.h '#include "cache/cache.h"' 'plugins includes'
violation include/larder/larder.h '#include "base/err.h"' 'a public header includes'
violation src/cache/cache.h '#include "cache/missing.h"' 'there is no "cache/missing.h"'
violation src/attic/old.c '#include "base/err.h"' 'the part "attic" is not in the table'
must_pass $check "$tree"

check=tools/check-style.sh
must_pass $check "$tree"
violation src/base/err.h "$(printf '\tint x;')" 'a tab'
violation src/base/err.h 'int x; ' 'a blank at the end'
violation src/base/err.h "$(printf '%101s' x)" 'over 100 columns'
violation src/base/err.h "/* see /ho""me/somebody/notes */" 'a path of one machine'
violation src/base/err.h "/* see /ro""ot */" 'a path of one machine'
violation src/base/err.h "/* TO""DO */" 'a note to self'
violation src/sample/cache.h 'int y;' 'src/sample/cache.h: the name of src/cache/cache.h'
must_pass $check "$tree"

[ "$(tools/install-packages.sh --print demo)" = dataset-fashion-mnist ] || die "--print demo"
must_say 'no group "nonsense"' tools/install-packages.sh --print nonsense
tools/install-packages.sh --print all | grep -qx cmake || die "--print all has no cmake"

# Nothing is installed and nobody may install: said once, with a line that can be pasted.
newcomer() { # command: as somebody else than root, with what lies in $scratch/bin alone
    env -i PATH="$scratch/bin" LARDER_STUBS="$scratch" "$@"
}
bare_path "$scratch/bin"
for tool in awk sed tr grep cat dirname env; do ln -s "$(command -v $tool)" "$scratch/bin/$tool"; done
stand_in() { # name, body
    printf '#!/bin/sh\n%s\n' "$2" >"$scratch/bin/$1"
    chmod +x "$scratch/bin/$1"
}
stand_in id 'echo 1000'
stand_in apt-get 'echo "apt-get $*" >>"$LARDER_STUBS/called"; exit 100'
must_say 'to install, as root: apt-get update && apt-get install --no-install-recommends dataset-' \
    newcomer tools/install-packages.sh --strict demo
stand_in sudo 'echo "sudo $*" >>"$LARDER_STUBS/called"; exit 1'
must_say 'to install: sudo apt-get update && sudo apt-get install' \
    newcomer tools/install-packages.sh --strict demo </dev/null
[ "$(cat "$scratch/called")" = "sudo -n true" ] || die "sudo was asked more than once"
must_pass newcomer tools/install-packages.sh demo </dev/null
rm "$scratch/bin/apt-get"
must_say "Debian's names" newcomer tools/install-packages.sh --strict demo
must_say 'cmake and ninja are needed' newcomer tools/configure.sh release
must_say 'no C compiler (no-such-cc); Debian: gcc' make core CC='no-such-cc -O0'

# What plays nothing does not pass.
for seeds in 0 5-3 5- many ''; do
    must_say 'SEEDS is how many' tools/simulate.sh "$seeds" daemon
done
if [ -x "$LARDER_BUILD/tool_simulate" ]; then
    must_say 'there is no world "deamon"' "$LARDER_BUILD/tool_simulate" deamon 1-1
fi

# Every goal that make help lists can be shown without being run.
unset MAKEFLAGS MAKELEVEL
make help | awk '{ print $2 }' >"$scratch/goals"
grep -qx core "$scratch/goals" || die "make help does not list core"
while read -r goal; do
    must_pass make -n "$goal"
done <"$scratch/goals"
