#!/usr/bin/env bash
# release build only
# The table of plug-ins in docs is the one the program prints; links lead somewhere, every page is
# found from the index, guides and questions stay short and errors are quoted as they are said, and the
# check of that finds what it is there for.
set -eu
tools/gen-docs.sh --check
tools/check-docs.py

. tests/support/tree.sh
tree=$scratch/tree d=docs # the name apart: what is written here is no link of this tree
must_say() { # what tools/check-docs.py must say of the tree
    if tools/check-docs.py "$tree" >"$scratch/out" 2>&1; then die "passed, but should say: $1"; fi
    grep -qxF -e "$1" "$scratch/out" || { cat "$scratch/out"; die "does not say: $1"; }
}
start() {
    rm -rf "$tree"
    mkdir -p "$tree/$d/guide" "$tree/$d/results" "$tree/src"
    printf '[docs](%s/index.md) [on the web](https://example.org/none.md)\n' "$d" >"$tree/README.md"
    printf '# All\n[a](guide/a.md#one-word-two) [b](results/b.md)\n' >"$tree/$d/index.md"
    printf '# A\n## One word: `two`\n[b](../results/b.md), `[no](link.md)`\n' >"$tree/$d/guide/a.md"
    printf '# B\n```\n[no](link.md)\n# heading\n```\n' >"$tree/$d/results/b.md"
    printf '/* %s/guide/a.md has more. */\n' "$d" >"$tree/src/x.c"
}
start
tools/check-docs.py "$tree" >/dev/null
printf '[x](gone.md)\n' >>"$tree/$d/guide/a.md"
must_say "$d/guide/a.md:4: there is no $d/guide/gone.md"
start
printf '[x](%s/guide/a.md#three)\n' "$d" >>"$tree/README.md"
must_say "README.md:2: $d/guide/a.md has no heading #three"
printf '[x](%s/results/b.md#heading)\n' "$d" >>"$tree/README.md"
must_say "README.md:3: $d/results/b.md has no heading #heading"
start
printf '# S\n## What is promised\n- a\n  b\n- What that leaves: c\n' >"$tree/SECURITY.md"
must_say "SECURITY.md:3: a promise that names no test"
printf '# S\n## Promised\n- a `tests/a.c`\n' >"$tree/SECURITY.md"
must_say "SECURITY.md: nothing is promised, or under another heading"
must_say "SECURITY.md:3: there is no tests/a.c"
start
printf '# C\n' >"$tree/$d/results/c.md"
printf '[c](../results/c.md)\n' >>"$tree/$d/guide/a.md"
must_say "$d/results/c.md: $d/index.md does not lead to it"
start
printf '| a |\n|---|\n| b |\n\n| c |\n' >>"$tree/$d/guide/a.md"
must_say "$d/guide/a.md:8: a row of no table"
start
printf '/* see %s/b.md */\n' "$d" >>"$tree/src/x.c"
must_say "src/x.c:2: there is no $d/b.md"
start
mkdir -p "$tree/$d/questions"
printf '# Q\n%s\n' "$(printf 'word %.0s' $(seq 700))" >"$tree/$d/questions/q.md"
printf '[q](questions/q.md) [e](questions/errors.md)\n' >>"$tree/$d/index.md"
printf '/* "hidden" */ fail("is %%s, but " "\\"%%.20s\\" has %%" PRIu64 " of 5 %%%%");\n' >>"$tree/src/x.c"
printf '[b](../results/b.md)\n| `…, but "…" has … of 5 %%` | yes |\n| `hidden` | no |\n' >"$tree/$d/questions/errors.md"
must_say "$d/questions/q.md: 702 words, more than 700: it should lead to a guide, not repeat it"
must_say "$d/questions/q.md: leads to no guide and no result"
must_say "$d/questions/errors.md:3: nothing says \"hidden\""
[ "$(grep -c 'nothing says' "$scratch/out")" = 1 ] || { cat "$scratch/out"; die "misses what is said"; }
start
printf 'word %.0s' $(seq 20000) >>"$tree/$d/guide/a.md"
must_say "$d/guide and $d/index.md have 20012 words, more than 20000"
