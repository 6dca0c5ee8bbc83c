#!/bin/sh
# Installs the Debian packages larder needs, by group; the only place that names them. Quick when
# nothing is missing: it asks dpkg, not apt.
#
#     tools/install-packages.sh [--print | --missing] [--strict] GROUP...
#
# --print    only prints the names of the groups' packages
# --missing  only prints those that are not installed
# --strict   fails when something stays missing; without it the command to run is named and the
#            script ends with 0, since every library is optional
#
# Groups: build test lint long demo bench dist site all, and two that are not part of all: coverage, for make
# coverage; peers, servers that some of the long tests compare with where they are installed
set -eu

# One package a word. a|b: either will do, the first that apt knows is installed.
# name=command: also there when the command is, wherever it came from.
packages() {
    case $1 in
    build) echo "gcc|clang=cc libc6-dev|libc-dev make=make cmake=cmake ninja-build=ninja
        pkg-config|pkgconf=pkg-config libjpeg62-turbo-dev|libjpeg-turbo8-dev|libjpeg-dev
        libspng-dev libwebp-dev libtiff-dev libgif-dev liblmdb-dev libhdf5-dev
        libsndfile1-dev zlib1g-dev liblzma-dev libzstd-dev libopenblas-dev liburing-dev
        libcurl4-openssl-dev|libcurl4-gnutls-dev libhiredis-dev
        libssl-dev" ;;
    test) echo "libcmocka-dev g++=c++ libhnswlib-dev python3 python3-pip python3-numpy python3-pil python3-torch
        python3-torchvision python3-sklearn python3-pytest dataset-fashion-mnist zstd=zstd xz-utils=xz
        libsvm-tools=svm-train redis-server=redis-server nginx-light|nginx=nginx
        openssl=openssl python3-botocore python3-cvxopt python3-lmdb python3-h5py python3-soundfile tmux=tmux mypy=mypy" ;;
    lint) echo "git=git clang-format=clang-format clang-tidy=clang-tidy cppcheck=cppcheck
        shellcheck=shellcheck codespell=codespell" ;;
    long) echo "clang=clang musl-tools=musl-gcc libclang-rt-dev|libclang-rt-14-dev chromium=chromium
        chromium-driver=chromedriver prometheus=promtool" ;;
    demo) echo "dataset-fashion-mnist" ;;
    bench) echo "redis-server memcached python3 python3-numpy python3-pil python3-torch
        python3-torchvision
        nginx-light|nginx=nginx curl=curl fio=fio" ;;
    dist) echo "patchelf=patchelf binutils=objdump debhelper=dh dh-python=dh_python3 fakeroot=fakeroot lintian=lintian python3 python3-venv
        systemd=systemd-analyze dpkg-dev=dpkg-buildpackage git=git" ;;
    site) echo "python3-sphinx python3-myst-parser furo" ;;
    coverage) echo "clang=clang llvm=llvm-cov libclang-rt-dev|libclang-rt-14-dev" ;;
    peers) echo "radosgw=radosgw ceph-mon=ceph-mon ceph-osd=ceph-osd ceph-common=ceph
        python3-botocore" ;;
    all) for group in build test lint long demo bench dist site; do packages $group; done ;;
    *) echo "install-packages: no group \"$1\"; there are build test lint long demo bench dist site all coverage peers" >&2
        return 2 ;;
    esac
}

wanted() { # the groups' entries, each once
    for group in $groups; do packages "$group"; done | tr -s ' ' '\n' | awk 'NF && !seen[$0]++'
}

missing() { # the entries of which neither a package nor the command is there
    entries=$(wanted)
    names=$(echo "$entries" | sed 's/=.*//' | tr '|' '\n')
    # shellcheck disable=SC2086 # one word a name
    installed=" $(dpkg-query -W -f '${Package} ${db:Status-Status}\n' $names 2>/dev/null |
        awk '$2 == "installed" { printf "%s ", $1 }') "
    for entry in $entries; do
        case $entry in *=*) command -v "${entry#*=}" >/dev/null && continue ;; esac
        found=
        for name in $(echo "${entry%%=*}" | tr '|' ' '); do
            case $installed in *" $name "*) found=1 ;; esac
        done
        [ "$found" ] || echo "${entry%%=*}"
    done
}

known() { apt-cache show --no-all-versions "$1" 2>/dev/null | grep -q '^Filename:'; }

choose() { # of each a|b the first that apt knows, or nothing
    for entry; do
        for name in $(echo "$entry" | tr '|' ' '); do
            if known "$name"; then
                echo "$name"
                break
            fi
        done
    done | sort -u
}

# sudo asks for a password where somebody can give it, and never waits for one elsewhere.
ask=-n
if [ -t 0 ]; then ask=; fi

may_install() {
    command -v apt-get >/dev/null || return 1
    [ "$(id -u)" != 0 ] || return 0
    command -v sudo >/dev/null || return 1
    if [ "$ask" ]; then sudo -n true 2>/dev/null; else sudo true; fi
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        env DEBIAN_FRONTEND=noninteractive "$@"
    else
        sudo $ask env DEBIAN_FRONTEND=noninteractive "$@"
    fi
}

apt_install() {
    as_root apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -qq -y \
        --no-install-recommends install "$@" </dev/null
}

apt_update() { as_root apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -qq update; }

usage() {
    sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

groups=
mode=install
strict=
for arg; do
    case $arg in
    --print) mode=print ;;
    --missing) mode=missing ;;
    --strict) strict=1 ;;
    -*) usage ;;
    *)
        packages "$arg" >/dev/null || exit 2
        groups="$groups $arg"
        ;;
    esac
done
[ "$groups" ] || usage

case $mode in
print)
    wanted | sed 's/[|=].*//' | sort -u
    exit 0
    ;;
missing)
    missing | sed 's/|.*//'
    exit 0
    ;;
esac

lack=$(missing)
[ "$lack" ] || exit 0

if may_install; then
    # shellcheck disable=SC2086 # one word a name, here and below
    names=$(choose $lack)
    if [ "$(echo "$names" | wc -l)" -lt "$(echo "$lack" | wc -l)" ] || [ ! "$names" ]; then
        apt_update || true
        # shellcheck disable=SC2086
        names=$(choose $lack)
    fi
    if [ "$names" ]; then
        echo "installing $(echo "$names" | tr '\n' ' ')"
        # shellcheck disable=SC2086
        apt_install $names || { apt_update && apt_install $names; } || true
    fi
    lack=$(missing)
    [ "$lack" ] || exit 0
fi

lack=$(echo "$lack" | sed 's/|.*//' | tr '\n' ' ')
lack=${lack% }
echo "not installed: $lack" >&2
if ! command -v apt-get >/dev/null; then
    echo "these are Debian's names; install what your system calls them" >&2
else
    sudo="" as=", as root"
    if [ "$(id -u)" = 0 ]; then
        as=
    elif command -v sudo >/dev/null; then
        sudo="sudo " as=
    fi
    echo "to install$as: ${sudo}apt-get update &&" \
        "${sudo}apt-get install --no-install-recommends $lack" >&2
fi
[ ! "$strict" ]
