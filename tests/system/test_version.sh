#!/usr/bin/env bash
# release build only
# The version is said in include/larder/larder.h; wherever else it stands it is the same.
set -eu
. tests/support/tree.sh
version=$(sed -n 's/^#define LARDER_VERSION "\(.*\)"$/\1/p' include/larder/larder.h)
same() { # where, what it says
    [ "$2" = "$version" ] || die "$1 says ${2:-nothing}, include/larder/larder.h $version"
}
same "the program" "$("$LARDER" --version | sed -n 's/^larder //p')"
same python/larder/_lib.py "$(sed -n 's/^VERSION = "\(.*\)"$/\1/p' python/larder/_lib.py)"
same debian/changelog "$(sed -n '1s/^larder (\(.*\)) .*/\1/p' debian/changelog)"
same larder.pc "$(sed -n 's/^Version: //p' "$LARDER_BUILD/larder.pc")"
same "the wheel" "$(python3 -c 'import sys; sys.path.insert(0, "python"); sys.dont_write_bytecode = True
import wheel_backend as w; print(w.version())')"
soname=$(readelf -d "$LARDER_BUILD/liblarder.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
[ "$soname" = "liblarder.so.$(sed -n 's/.*SOVERSION \([0-9][0-9]*\).*/\1/p' CMakeLists.txt)" ] || die "the soname is $soname"
grep -q "^Package: ${soname/.so./}\$" debian/control || die "debian/control has no package of $soname"
grep -q "$soname" larder-config.cmake.in || die "larder-config.cmake.in does not know $soname"
same "find_package in CONTRIBUTING.md" "$(sed -n 's/^find_package(larder \([0-9.]*\) REQUIRED)$/\1/p' CONTRIBUTING.md).${version##*.}"
# The version of today is either being made or dated in CHANGELOG.md, and is the newest there.
newest=$(sed -n 's/^## \([0-9.]*\).*/\1/p' CHANGELOG.md | head -n 1)
[ "$(printf '%s\n' "$version" "$newest" | sort -V | tail -n 1)" = "$newest" ] ||
    die "CHANGELOG.md knows $newest, include/larder/larder.h $version"
# Debian's build needs the libraries that ours does.
for package in $(tools/install-packages.sh --print build | grep -e '^lib.*-dev$' -e '^zlib' | grep -v '^libc6-dev'); do
    grep -qE "^ +$package\b" debian/control || die "debian/control does not need $package"
done
