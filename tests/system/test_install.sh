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
for file in man/man1/larder.1 man/man1/larder-svm-train.1 bash-completion/completions/larder \
    zsh/site-functions/_larder fish/vendor_completions.d/larder.fish; do
    [ -s "$installed/share/$file" ] || die "make install leaves no share/$file"
done

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
# The same by CMake, from another tree; the shared program finds its library where it was linked.
mkdir "$scratch/other"
cp "$scratch/ten.c" "$scratch/other"
cat >"$scratch/other/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.20)
project(other LANGUAGES C)
find_package(larder 0.2 REQUIRED)
add_executable(by_shared ten.c)
target_link_libraries(by_shared PRIVATE larder::larder)
add_executable(by_static ten.c)
target_link_libraries(by_static PRIVATE larder::static)
CMAKE
other_tree() { # arguments of cmake
    cmake -S "$scratch/other" -B "$scratch/other/build" -G Ninja "$@" >"$scratch/log" 2>&1
}
other_tree -DCMAKE_PREFIX_PATH="$installed" && cmake --build "$scratch/other/build" >>"$scratch/log" 2>&1 || {
    cat "$scratch/log"
    die "no build by find_package(larder)"
}
"$scratch/other/build/by_shared"
"$scratch/other/build/by_static"
ldd "$scratch/other/build/by_shared" | grep -q "liblarder.so.0 => $installed/" || die "larder::larder is not shared"
ldd "$scratch/other/build/by_static" | grep liblarder && die "larder::static is shared"
sed -i 's/larder 0.2/larder 99/' "$scratch/other/CMakeLists.txt"
other_tree -DCMAKE_PREFIX_PATH="$installed" && die "a version that is not there was found"
grep -q 'version' "$scratch/log" || { cat "$scratch/log"; die "nothing is said of the version"; }

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
