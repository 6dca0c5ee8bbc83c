#!/usr/bin/env bash
# Plug-ins from outside: the examples are built by their own Makefile and run through --plugin,
# LARDER_PLUGINS and Python, and the suites for larder's own run over them. What cannot be a plug-in
# gets a sentence.
set -eu
. tests/support/tree.sh
root=$PWD
cp examples/plugin/* "$scratch"
make -s -C "$scratch" LARDER_CFLAGS="-I$root/include" CFLAGS="-Wall -Wextra -Wpedantic -Werror"
s3=$scratch/s3fifo.so
tint=$scratch/tint.so

sim() { "$LARDER" sim --n 2000 --epochs 3 --batch 50 --cache 20% --seed 1 "$@"; }
sim --plugin "$s3" --recipe s3fifo | grep -q s3fifo || die "s3fifo does not run"
sim --recipe lru,s3fifo:small=0.2 --plugin="$s3" | grep -q s3fifo || die "--plugin=FILE, last"
LARDER_PLUGINS="$s3:$tint" "$LARDER" list >"$scratch/list"
for name in s3fifo tint small most; do
    grep -qw "$name" "$scratch/list" || die "larder list does not show $name"
done
(cd "$scratch" && "$LARDER" --plugin s3fifo.so list | grep -qw s3fifo) || die "a file without a slash"
"$LARDER" --plugin "$s3" --plugin "$s3" list >"$scratch/out" || die "a file named twice"

refused() { # what it must say, then the command
    local want=$1
    shift
    if "$@" >"$scratch/out" 2>&1; then die "passes: $*"; fi
    grep -qF "$want" "$scratch/out" || {
        cat "$scratch/out"
        die "does not say \"$want\": $*"
    }
}
build() { # a plug-in from standard input
    cc -std=c17 "-I$root/include" -Wall -Wextra -fPIC -shared -o "$scratch/$1.so" -x c -
}
refused "did you mean s3fifo?" sim --plugin "$s3" --recipe s3fif0
refused "there is no such file" "$LARDER" --plugin "$scratch/none.so" list
refused "it cannot be loaded" "$LARDER" --plugin "$scratch/Makefile" list
refused "it cannot be loaded" "$LARDER" --plugin "$scratch" list
refused "is the name of a shared object" "$LARDER" list --plugin
refused "LARDER_PLUGINS: plug-in $scratch/none.so: there is no such file" \
    env LARDER_PLUGINS="$s3:$scratch/none.so" "$LARDER" list
echo 'int nothing; ' | build empty
refused "it has no function larder_plugin_load" "$LARDER" --plugin "$scratch/empty.so" list
sed 's/^int larder_plugin_load.*//' "$scratch/s3fifo.c" >"$scratch/body.c"
{
    cat "$scratch/body.c"
    cat <<'END'
int larder_plugin_load(void) {
    const larder_registration r = {LARDER_PLUGIN_ABI + 6, LARDER_SORT_POLICY, sizeof(larder_policy),
                                   &s3fifo_policy, {0}};
    return larder_register(&r);
}
END
} | build version
refused "made for plug-in version 7 of larder" "$LARDER" --plugin "$scratch/version.so" list
sed 's/"s3fifo"/"lru"/' "$scratch/s3fifo.c" | build clash
refused "policy lru: there is one of this name already" "$LARDER" --plugin "$scratch/clash.so" list
cp "$s3" "$scratch/again.so"
refused "policy s3fifo: there is one of this name already" \
    "$LARDER" --plugin "$s3" --plugin "$scratch/again.so" list
sed 's/    .victim = victim,//; s/^static larder_slot victim/larder_slot victim/' "$scratch/s3fifo.c" |
    build lacking
refused "it needs init, insert, hit, victim and remove" "$LARDER" --plugin "$scratch/lacking.so" list

# Who fails later without a word is not told that loading failed.
sed 's/^    p->small = .*/    return args ? -1 : 0;/' "$scratch/s3fifo.c" |
    build silent
refused "larder sim: " sim --plugin "$scratch/silent.so" --recipe s3fifo
if grep -q larder_plugin_load "$scratch/out"; then die "a silent init is said to be a failed load"; fi

# The suites take it up: it keeps what every policy must.
LARDER_PLUGINS=$s3 "$LARDER_BUILD/test_policies" >"$scratch/out" 2>&1 || {
    cat "$scratch/out"
    die "s3fifo does not conform"
}

# Python, where torch or not: the library keeps its names to itself there.
python3 -c 'import numpy' 2>/dev/null || exit 0
[ -f "$LARDER_BUILD/liblarder.so" ] || exit 0
ldd "$LARDER_BUILD/liblarder.so" | grep -q 'lib[at]san' && exit 0
PYTHONPATH=python python3 - "$scratch" <<'END'
import sys, larder
folder = sys.argv[1]
for bad, kind in ((folder + "/none.so", FileNotFoundError), (folder + "/Makefile", larder.FormatError)):
    try:
        larder.load_plugin(bad)
        raise SystemExit("loads " + bad)
    except kind as e:
        assert bad in str(e), e
larder.load_plugin(folder + "/s3fifo.so")
larder.load_plugin((folder + "/tint.so").encode())
def first(augment):
    loader = larder.Loader("mem:?n=64&h=8&w=8&c=3", 16, recipe="s3fifo", cache="50%", seed=3,
                           augment=augment, dtype="uint8")
    return [b for b in loader][0][0]
plain, tinted = first(["flip:p=0"]), first(["flip:p=0", "tint:most=1"])
assert plain.shape == tinted.shape and (plain != tinted).any()
assert (plain == first(["flip:p=0", "tint:most=0"])).all()
END
