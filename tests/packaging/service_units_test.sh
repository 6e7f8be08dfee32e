#!/bin/bash
# Installs the daemon and lets systemd's own tools judge its units: they are valid, the host's is well confined, and the user
# that it runs as can be made.
set -euo pipefail
build=$1 cmake=$2

command -v systemd-analyze systemd-sysusers >/dev/null || {
    echo "SKIPPED: systemd-analyze and systemd-sysusers are not installed (Debian: systemd)"
    exit 77
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HOME=$scratch XDG_RUNTIME_DIR=$scratch # a user's units: nobody's own ones come in between
fail() {
    echo "FAILED: $*"
    exit 1
}

prefix="$scratch/50% prefix"
"$cmake" --install "$build" --prefix "$prefix" --component daemon >"$scratch/install.log" 2>&1 || fail "$(cat "$scratch/install.log")"
system=$prefix/lib/systemd/system user=$prefix/lib/systemd/user

# verify MANAGER UNIT...: no word of complaint. Warnings, such as of a key that does not exist, leave its exit code at 0. With
# `man`, it looks for the manual page that the units name too.
man=no
if command -v man >/dev/null; then
    man=yes
    export MANPATH=$prefix/share/man
fi
verify() {
    local said
    said=$(systemd-analyze "$1" --man="$man" verify "${@:2}" 2>&1) || fail "verify $*: $said"
    # Before 254 there is no such key, and nothing is lost by saying it.
    said=$(grep -v "Unknown key.* 'FileDescriptorStorePreserve'" <<<"$said") || true
    [[ -z $said ]] || fail "verify $*: $said"
    echo "verified: $*"
}
verify --system "$system/hurrayd.service" "$system/hurrayd.socket"
verify --user "$user/hurrayd.service" "$user/hurrayd.socket"

# In tenths: 8 is an exposure of 0.8.
systemd-analyze security --no-pager --offline=true --threshold=8 "$system/hurrayd.service" >"$scratch/security" ||
    fail "too exposed: $(cat "$scratch/security")"
tail -n 1 "$scratch/security"

mkdir -p "$scratch/host/etc"
systemd-sysusers --dry-run --root="$scratch/host" "$prefix/lib/sysusers.d/hurray.conf" >"$scratch/sysusers" 2>&1 ||
    fail "$(cat "$scratch/sysusers")"
grep -q "Creating user 'hurray'" "$scratch/sysusers" || fail "no user hurray: $(cat "$scratch/sysusers")"
