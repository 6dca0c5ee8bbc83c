#!/bin/sh
# Who may include whom below src/. Stations do not know each other, base knows nobody, and only the
# parts that join them (loader, svm, sim, train, report, cli) include several. Prints file:line of
# every include that the table does not allow.
#
#     tools/check-layers.sh [ROOT OF A TREE]
set -eu
cd "${1:-$(dirname "$0")/..}"

# part: parts it may include besides itself. Files directly in src/ are the part "plugins".
allowed() {
    cat <<'TABLE'
base:
plugins: base stage
source: base plugins
stage:  base plugins
cache:  base plugins
signal: base plugins
sample: base plugins
plan:   base
see:    base
tape:   base
shared: base plugins cache
redis:  base plugins cache shared
disk:   base plugins cache shared
unix:   base plugins cache shared plan see
crew:   base
cage:   base plugins stage
gpu:    base
loader: base plugins plan see shared unix redis disk source stage cache signal sample tape cage gpu
svm:    base plugins cache source see gpu
sim:    base plugins shared source cache signal sample loader svm tape
pack:   base plugins source stage
profile: base plugins shared source stage cache plan unix redis disk loader
train:  base plugins source stage cache signal sample loader report
report: base tape
cli:    base plugins shared source stage cage gpu cache signal sample plan see unix redis disk loader svm sim profile train report pack tape
TABLE
}

list=$(mktemp)
trap 'rm -f "$list"' EXIT
find include src -name '*.[ch]' | sort >"$list"
[ -s "$list" ] || {
    echo "check-layers: no sources below $(pwd)/src" >&2
    exit 1
}

# shellcheck disable=SC2046 # names without blanks
allowed | awk '
    function part_of(path,   rest) { # of a path below the root
        if (path ~ /^include\//) return "public"
        rest = substr(path, 5)
        return rest ~ /\// ? substr(rest, 1, index(rest, "/") - 1) : "plugins"
    }
    function tidy(path) { # a/b/../c -> a/c, ./a -> a
        gsub(/\/\.\//, "/", path)
        while (path ~ /[^\/.]+\/\.\.\//) sub(/[^\/.]+\/\.\.\//, "", path)
        return path
    }
    function target(file, name,   folder, i, path) { # the file of ours that is meant, or ""
        folder = file
        sub(/[^\/]*$/, "", folder)
        path = tidy(folder name)
        if (path in ours) return path
        path = tidy("src/" name)
        if (path in ours) return path
        path = tidy("include/" name)
        return path in ours ? path : ""
    }
    function complain(text) {
        print FILENAME ":" FNR ": " text
        bad = 1
    }
    FILENAME == "-" {
        part = $1
        sub(/:$/, "", part)
        known[part] = 1
        may[part, part] = 1
        for (i = 2; i <= NF; i++) may[part, $i] = 1
        next
    }
    FILENAME == listing { ours[$0] = 1; next }
    FNR == 1 {
        me = part_of(FILENAME)
        if (me != "public" && !(me in known))
            complain("the part \"" me "\" is not in the table of tools/check-layers.sh")
    }
    /^[ \t]*#[ \t]*include[ \t]*["<]/ {
        name = $0
        sub(/^[^"<]*["<]/, "", name)
        sub(/[">].*/, "", name)
        path = target(FILENAME, name)
        if (path == "") {
            if ($0 ~ /"/ && name !~ /\.def$/) complain("there is no \"" name "\" in this tree")
            next
        }
        it = part_of(path)
        if (it == "public") next
        if (me == "public")
            complain("a public header includes \"" name "\", which is not installed")
        else if (!((me, it) in may))
            complain(me " includes \"" name "\" of " it)
    }
    END { exit bad }
' listing="$list" - "$list" $(cat "$list")

# The rooms of the loader: headers of other rooms that one may include besides loader/inside.h, which
# is the whole loader, and which deciding (draw) and what it hears (feedback) do not need.
bad=0
while read -r room may; do
    others=$(grep -rnE '#include "loader/(draw|fill|feedback|resume|figures)/' "src/loader/${room%:}" |
        grep -vE "\"loader/(${room%:}${may:+|$may})/" || true)
    [ -z "$others" ] || {
        echo "$others"
        echo "check-layers: loader/${room%:} includes another room (above)"
        bad=1
    }
done <<'ROOMS'
draw: feedback
fill: draw
feedback:
resume: draw
figures: draw
ROOMS

# Who shares a cache asks for time, chance and sockets' bytes through base/world.h alone.
outside=$(grep -rnE '\b(larder__now|larder__sleep_until|clock_gettime|getrandom|sendmsg|recvmsg|nanosleep|usleep)\(' \
    src/shared src/unix src/redis || true)
[ -z "$outside" ] || {
    echo "$outside"
    echo "check-layers: not through base/world.h (above)"
    bad=1
}
exit "$bad"
