#!/usr/bin/env bash
# release build only
# The wheel for other distributions, built whole and installed where there is nothing but Python.
set -eu
. tests/support/tree.sh
tools/install-packages.sh --missing dist | grep . && {
    echo "skipped: not all of tools/install-packages.sh dist"
    exit 77
}
tools/wheel.sh "$scratch/dist" >"$scratch/log" 2>&1 || { cat "$scratch/log"; die "no wheel"; }
/usr/bin/python3 -m venv "$scratch/env"
"$scratch/env/bin/pip" install --quiet --no-index --no-deps --disable-pip-version-check "$scratch"/dist/*.whl
bare() { (cd "$scratch" && env -i HOME="$scratch" PATH=/usr/bin:/bin LC_ALL=C.UTF-8 "$@"); }

bare "$scratch/env/bin/larder" --version | tee "$scratch/version"
for part in jpeg png webp gif lmdb hdf5 sound zlib xz zstd cblas curl redis tls; do
    grep -q " $part\b" "$scratch/version" || die "the wheel has no $part"
done
bare "$scratch/env/bin/python" -m larder demo --quick | tee "$scratch/demo"
grep -q '^minio .* ± ' "$scratch/demo" || die "no table"
grep -q 'pip install torch' "$scratch/demo" || die "nothing is said of PyTorch"
bare "$scratch/env/bin/python" -c 'import larder; print(larder.features(), len(larder.Loader("mem:?n=90&h=8&w=8&c=3", 10)))'
bare "$scratch/env/bin/larder" train 'mem:?n=600&h=8&w=8&c=3' --test none --epochs 1 --quiet --cage on

# Nothing but the bundle, glibc and libgcc is needed.
site=$(dirname "$("$scratch/env/bin/python" -c 'import larder; print(larder.__path__[0])')")
for file in "$site"/larder/liblarder.so "$site"/larder/bin/larder "$site"/larder/libs/*; do
    ldd "$file" | sed 's/^[[:space:]]*//' | grep -v "=> $site/" |
        grep -vE '^(linux-vdso|/lib64/ld-linux|statically|lib(c|m|dl|rt|pthread|resolv|gcc_s)\.so\.[0-9]+ )' &&
        die "$file needs what is not in the wheel"
done
# A licence of every one.
for file in "$site"/larder/libs/*; do
    package=$(grep -F "$(basename "$file")  " "$site"/larder-*/licenses/BUNDLED | awk '{ print $2 }')
    [ -s "$(echo "$site"/larder-*/licenses/"$package"/copyright)" ] || die "no licence of $file"
done
echo "$(ls "$scratch/dist"): $(stat -c %s "$scratch"/dist/*.whl) bytes, $(wc -l <"$(echo "$site"/larder-*/licenses/BUNDLED)") lines of libraries"
GLIBC=2.17 tools/wheel.sh "$scratch/older" >"$scratch/log" 2>&1 && die "a newer symbol was taken"
grep -q 'newer than GLIBC_2.17' "$scratch/log" || { cat "$scratch/log"; die "the symbol is not named"; }
