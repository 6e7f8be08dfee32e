#!/bin/bash
# fresh_root_test.sh FOLDER [ROOT]: installs the Debian packages of FOLDER in a fresh Debian, uses them as people would, and
# removes them without a trace (in_fresh_root.sh). Needs root and the distribution's mirror.
#
# ROOT is a minimal Debian, of which a copy is used. Without it debootstrap makes one of this machine's suite.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

if [[ ${1:-} != --inside ]]; then
    folder=$(realpath "$1") root=${2:+$(realpath "$2")}
    skip() {
        echo "SKIPPED: $*"
        exit 77
    }
    ((EUID == 0)) || skip "root is needed to change the root directory"
    unshare --mount --pid --fork true 2>/dev/null || skip "this machine does not let root make namespaces"
    [[ -n $root ]] || command -v debootstrap >/dev/null || skip "debootstrap is not installed"
    scratch=$(mktemp -d)
    trap 'rm -rf --one-file-system "$scratch"' EXIT
    # Mounts and processes end with the namespaces, however this ends.
    unshare --mount --propagation private --pid --fork --kill-child "$0" --inside "$scratch" "$folder" "$root"
    exit
fi

scratch=$2 folder=$3 root=$4
if [[ -n $root ]]; then
    cp -a "$root" "$scratch/debian"
else
    # shellcheck source=/dev/null
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    # This machine's own mirror, or else what debootstrap takes: `deb [OPTIONS] URL SUITE ...` or `URIs: URL`.
    mirror=$(sed -nE 's,^(deb|URIs:)[ \t]+(\[[^]]*\][ \t]+)?(https?://[^ ]+/debian/?)([ \t].*)?$,\3,p' \
        /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | sed -n 1p || true)
    echo "-- debootstrap $suite"
    debootstrap --variant=minbase "$suite" "$scratch/debian" ${mirror:+"$mirror"} >"$scratch/log" || {
        tail -n 20 "$scratch/log"
        echo "SKIPPED: debootstrap can't make a Debian here"
        exit 77
    }
fi
root=$scratch/debian
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mkdir -p "$root/packages/examples"
cp "$folder"/*.deb "$here/in_fresh_root.sh" "$root/packages"
cp -r "$here/../../examples/c" "$here/../../examples/python" "$root/packages/examples"
# How the mirror is reached: names, and certificates where somebody's own authority stands in between.
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    chroot "$root" /packages/in_fresh_root.sh </dev/null
