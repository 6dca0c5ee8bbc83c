#!/usr/bin/env bash
# release build only
# The Debian packages: built, clean by lintian, and what they hold works when unpacked elsewhere.
set -eu
. tests/support/tree.sh
for tool in dh dh_python3 lintian dpkg-buildpackage systemd-analyze; do
    command -v $tool >/dev/null || {
        echo "skipped: no $tool (tools/install-packages.sh dist)"
        exit 77
    }
done
tools/deb.sh "$scratch/debs" | tee "$scratch/log"
root=$scratch/root
for package in liblarder0 liblarder-dev larder python3-larder; do
    dpkg-deb -x "$scratch"/debs/${package}_*.deb "$root"
done
version=$(sed -n 's/^#define LARDER_VERSION "\(.*\)"$/\1/p' include/larder/larder.h)
libraries=$(dirname "$(find "$root" -name liblarder.so.0)")
clean() { (cd "$scratch" && env -i HOME="$scratch" PATH=/usr/bin:/bin LC_ALL=C.UTF-8 LD_LIBRARY_PATH="$libraries" "$@"); }

[ "$(clean "$root/usr/bin/larder" --version | head -n 1)" = "larder $version" ] || die "the program is of another version"
clean env PYTHONPATH="$root/usr/lib/python3/dist-packages" LARDER="$root/usr/bin/larder" /usr/bin/python3 -c '
import larder
print(sum(len(y) for x, y in larder.Loader("mem:?n=90&h=8&w=8&c=3", 10)), larder._lib.load()._name)' >"$scratch/log"
grep -q '^90 liblarder.so.0$' "$scratch/log" || { cat "$scratch/log"; die "the module does not take the system's library"; }
printf '#include <larder/larder.h>\nint main(void) { return larder_version()[0] == 0; }\n' >"$scratch/one.c"
# shellcheck disable=SC2046 # flags are words
cc -o "$scratch/one" "$scratch/one.c" $(PKG_CONFIG_PATH=$libraries/pkgconfig pkg-config --cflags --libs larder)
clean "$scratch/one"

for file in zsh/vendor-completions/_larder bash-completion/completions/larder fish/vendor_completions.d/larder.fish; do
    [ -s "$root/usr/share/$file" ] || die "no shell finds share/$file"
done

# Hardened as Debian wants it, and the service as systemd counts.
readelf -dW "$root/usr/bin/larder" | grep -q 'FLAGS_1.*NOW.*PIE' || die "the program is not PIE with BIND_NOW"
unit=$(find "$root" -name larder.service)
sed "s|^ExecStart=/usr/bin/larder|ExecStart=$root/usr/bin/larder|" "$unit" >"$scratch/larder.service"
systemd-analyze verify "$scratch/larder.service" 2>&1 | grep . && die "systemd does not like the service"
systemd-analyze security --offline=yes --threshold=10 "$scratch/larder.service" >"$scratch/log" ||
    { tail -n 3 "$scratch/log"; die "the service may do more than it needs"; }
dpkg-deb -I "$scratch"/debs/larder_*.deb postinst >"$scratch/postinst"
grep -q 'systemd-sysusers' "$scratch/postinst" || die "nobody makes the user"
grep -q 'deb-systemd-invoke' "$scratch/postinst" && die "it starts unasked"
grep -q 'if deb-systemd-helper debian-installed' "$scratch/postinst" || die "it is enabled unasked"
for package in liblarder0 larder; do
    dpkg-deb -f "$scratch"/debs/${package}_*.deb Depends | grep -q 'libcurl4.*libopenblas' || die "$package does not ask for what it opens later"
done
dpkg-deb -f "$scratch"/debs/liblarder-dev_*.deb Depends | grep -q libcurl4-openssl-dev || die "liblarder.a lacks what it needs"
ls "$scratch/debs"
