#!/bin/sh
# All fuzz targets, their libraries and stored inputs as one archive, to be run on another x86-64 machine
# that has a shell and nothing else (its libc does not matter, ours goes along). Targets that hold the
# whole loader are one program under many names, which makes the archive a quarter as large.
#
#     tools/fuzz-bundle.sh ARCHIVE.tar.xz
#
# There: tar xf ARCHIVE.tar.xz && fuzz/fuzz-run.sh JOBS SECONDS OUT [BEFORE]
set -eu
cd "$(dirname "$0")/.."
archive=$1
build=build/bundle
into=$build/fuzz

tools/configure.sh fuzz -B $build -DCMAKE_C_FLAGS_RELWITHDEBINFO="-O1 -gline-tables-only" \
    -DCMAKE_EXE_LINKER_FLAGS="-Wl,--as-needed,--disable-new-dtags,-rpath,'\$ORIGIN/lib'" >/dev/null
cmake --build $build --parallel "$(nproc 2>/dev/null || echo 2)" >$build/build.log
rm -rf $into
mkdir -p $into/lib $into/corpus

object() { echo "CMakeFiles/fuzz_$1.dir/tests/fuzz/fuzz_$1.c.o"; }

# A target joins the others if it is large and brings no function of the library of its own.
many=
for file in tests/fuzz/fuzz_*.c; do
    name=${file##*/fuzz_}
    name=${name%.c}
    if [ "$(wc -c <"$build/fuzz_$name")" -gt 5000000 ] &&
        ! nm --defined-only "$build/$(object "$name")" | grep -q ' T larder_'; then
        many="$many $name"
        ln -s fuzz_many "$into/fuzz_$name"
    else
        strip -s -o "$into/fuzz_$name" "$build/fuzz_$name"
    fi
    cp -r "tests/fuzz/corpus/$name" $into/corpus/
done

# The one of many looks at the name it was called by.
joined=
{
    echo '#include <stdint.h>'
    echo '#include <string.h>'
    for name in $many; do echo "int fuzz_$name(const uint8_t *, size_t);"; done
    echo 'static int (*target)(const uint8_t *, size_t);'
    echo 'int LLVMFuzzerTestOneInput(const uint8_t *d, size_t n) { return target(d, n); }'
    echo 'int LLVMFuzzerInitialize(int *c, char ***v) {'
    echo '    const char *s = strrchr((*v)[0], 47), *name = s ? s + 1 : (*v)[0];'
    for name in $many; do echo "    if (!strcmp(name, \"fuzz_$name\")) target = fuzz_$name;"; done
    echo '    return *c < 1 || !target; }'
} >$build/many.c
for name in $many; do
    objcopy --redefine-sym "LLVMFuzzerTestOneInput=fuzz_$name" --keep-global-symbol="fuzz_$name" \
        "$build/$(object "$name")" "$build/many_$name.o"
    joined="$joined many_$name.o"
    last=$name
done
(
    cd $build
    clang -c -O1 -fsanitize=address many.c -o many.o
    ninja -t commands "fuzz_$last" | tail -n 1 |
        sed "s,$(object "$last"),many.o$joined,; s,-o fuzz_$last,-o fuzz_many," >many.sh
    sh many.sh
)
strip -s -o $into/fuzz_many $build/fuzz_many

for program in "$into"/fuzz_*; do
    [ -L "$program" ] || ldd "$program"
done | awk '$3 ~ /^\// { print $3 } $1 ~ /ld-linux/ { print $1 }' | sort -u |
    while read -r library; do
        cp -L "$library" $into/lib/
        strip --strip-unneeded "$into/lib/${library##*/}" 2>/dev/null || true
    done
cp tools/fuzz-run.sh $into/
cp tests/fuzz/minutes.list $into/
tar -C $build --sort=name -c fuzz | xz -T1 -9 --lzma2=preset=6,dict=192MiB >"$archive"
echo "$archive: $(wc -c <"$archive") bytes, $(echo "$many" | wc -w) targets in one program"
