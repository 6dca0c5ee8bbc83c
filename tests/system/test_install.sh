#!/usr/bin/env bash
# release build only
# A program of ten lines builds against what make install leaves, shared and static.
set -eu
. tests/support/tree.sh
DESTDIR=$scratch/root cmake --install "$LARDER_BUILD" --prefix /opt/larder >"$scratch/log"
installed=$scratch/root/opt/larder
PKG_CONFIG_PATH=$(dirname "$(find "$installed" -name larder.pc)")
export PKG_CONFIG_PATH
"$installed/bin/larder" --version

cat >"$scratch/ten.c" <<'C'
#include <larder/larder.h>
#include <stdio.h>
#include <string.h>
int main(void) {
    larder_loader_conf conf = {.size = sizeof conf, .source = "dir:nowhere/at/all"};
    larder_loader *loader = NULL;
    int code = larder_loader_open(&loader, &conf);
    printf("%s (%s): %s\n", larder_version(), larder_features(), larder_errmsg());
    return code < 0 && strcmp(larder_version(), LARDER_VERSION) == 0 ? 0 : 1;
}
C
# shellcheck disable=SC2046 # flags are words
{
    cc -Wall -Werror -o "$scratch/shared" "$scratch/ten.c" $(pkg-config --cflags --libs larder)
    cc -Wall -Werror -o "$scratch/static" "$scratch/ten.c" \
        $(pkg-config --static --cflags --libs larder | sed 's/-llarder/-l:liblarder.a/')
}
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH") "$scratch/shared"
"$scratch/static"
ldd "$scratch/static" | grep liblarder && die "the static program needs the shared library"
[ "$(pkg-config --modversion larder)" = "$("$scratch/static" | cut -d' ' -f1)" ] ||
    die "larder.pc and the library have different versions"
# Inner names stay inside.
nm -D --defined-only "$(dirname "$PKG_CONFIG_PATH")/liblarder.so" | grep -w 'larder__[a-z_]*' &&
    die "the shared library exports inner names"

# The tree may lie anywhere: what the shell takes for syntax is only a name.
odd="$scratch/it's a (copy)"
copy_tree "$odd"
cmake -S "$odd" -B "$odd/build" -G Ninja -DLARDER_TESTS=OFF >"$scratch/log" 2>&1 &&
    cmake --build "$odd/build" --target page_files.c >>"$scratch/log" 2>&1 || {
    cat "$scratch/log"
    die "no build in a folder with brackets"
}
