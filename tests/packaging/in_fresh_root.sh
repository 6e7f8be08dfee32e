#!/bin/bash
# Runs as root in a fresh Debian that has the packages in /packages; see fresh_root_test.sh.
set -euo pipefail
cd /packages
fail() {
    echo "FAILED: $*"
    exit 1
}
apt() {
    apt-get -q -y -o Dpkg::Use-Pty=0 --no-install-recommends "$@" >/packages/apt.log 2>&1 || {
        tail -n 40 /packages/apt.log
        fail "apt-get $*"
    }
    if grep -E 'dpkg: (error|warning)|^W: .*hurray' /packages/apt.log; then
        fail "apt-get $*: dpkg complains"
    fi
}
# run_as USER COMMAND...: with the groups that a login would give. `exec_as`, for the background, so that $! is the command.
exec_as() {
    exec setpriv --reuid="$1" --regid="$(id -g "$1")" --init-groups env HOME=/ "${@:2}"
}
run_as() {
    (exec_as "$@")
}
# eventually COMMAND...: what another process does in its own time; the watchdog ends a wait in vain.
eventually() {
    local left=600
    until "$@" >/packages/eventually.log 2>&1; do
        ((left-- > 0)) || {
            cat /packages/eventually.log
            fail "in vain: $*"
        }
        sleep 0.05
    done
}

. /etc/os-release
echo "-- install: $PRETTY_NAME"
apt-get -q update >/packages/apt.log 2>&1 || {
    tail -n 20 /packages/apt.log
    echo "SKIPPED: no mirror can be reached from the fresh Debian"
    exit 77
}
apt install ./*.deb gcc libc6-dev pkg-config
dpkg --verify hurrayd hurrayctl libhurray2 libhurray-client0 libhurray-dev python3-hurray | tee verify.log
[[ ! -s verify.log ]] || fail "dpkg --verify"
for library in libhurray.so.2 libhurray-client.so.0; do
    ldconfig -p | grep -q "$library " || fail "the dynamic linker does not know $library"
done

echo "-- the service is set up"
[[ $(stat -c '%U:%G %a' /run/hurray) == "hurray:hurray 755" ]] || fail "/run/hurray: $(stat -c '%U:%G %a' /run/hurray)"
[[ $(getent passwd hurray | cut -d: -f7) == */nologin ]] || fail "user hurray: $(getent passwd hurray)"
for link in sockets.target.wants/hurrayd.socket multi-user.target.wants/hurrayd.service; do
    [[ -e /etc/systemd/system/$link ]] || fail "$link is not enabled"
done
if command -v systemd-analyze >/dev/null; then
    said=$(systemd-analyze --man=no verify hurrayd.service hurrayd.socket 2>&1 | grep hurray || true)
    # Before 254 there is no such key, and nothing is lost by saying it.
    said=$(grep -v "Unknown key.* 'FileDescriptorStorePreserve'" <<<"$said") || true
    [[ -z $said ]] || fail "systemd-analyze verify: $said"
    systemd-analyze security --offline=true --threshold=8 hurrayd.service >security.log || fail "$(tail -n 1 security.log)"
    tail -n 1 security.log
fi

echo "-- the daemon serves its group, and nobody else"
# As hurrayd.socket and hurrayd.service have it; systemd itself does not run in here.
exec_as hurray hurrayd 2>daemon.log &
daemon=$!
eventually test -S /run/hurray/hurrayd.sock
[[ $(stat -c '%G %a' /run/hurray/hurrayd.sock) == "hurray 660" ]] || fail "the socket: $(stat -c '%G %a' /run/hurray/hurrayd.sock)"
useradd --groups hurray alice
useradd bob
eventually run_as alice hurrayctl status
code=0
run_as bob hurrayctl status 2>bob.log || code=$?
[[ $code == 1 ]] && grep -q 'the group `hurray`' bob.log || fail "a stranger got exit code $code and: $(cat bob.log)"

echo "-- Python publishes, C attaches"
# shellcheck disable=SC2046 # flags are words
gcc -std=c99 -Wall -Wextra -Werror examples/c/attach.c $(pkg-config --cflags --libs hurray-client) -o attach
exec_as alice python3 examples/python/publish.py >publish.log 2>&1 &
publisher=$!
eventually run_as alice hurrayctl inspect camera/front
[[ $(run_as alice ./attach) == "camera/front: 921600 bytes, sum 117964800" ]] || fail "attach: $(run_as alice ./attach 2>&1)"
python3 -c 'import importlib.metadata as m, hurray; assert m.version("hurray") == hurray.__version__' || fail "metadata"

echo "-- installing over it disturbs nobody"
apt install --reinstall ./*.deb
[[ $(run_as alice ./attach) == "camera/front: 921600 bytes, sum 117964800" ]] || fail "attach after an upgrade"
kill "$publisher"
wait "$publisher" || true
kill "$daemon"
wait "$daemon" || fail "hurrayd ended with $?: $(cat daemon.log)"

packages=(hurrayd hurrayctl libhurray2 libhurray-client0 libhurray-dev python3-hurray)
echo "-- remove, install again, purge"
apt remove "${packages[@]}"
! command -v hurrayd || fail "hurrayd is still there"
apt install ./*.deb
apt purge "${packages[@]}"
# The user stays, and with it its name in /etc/passwd, as with every service of Debian's.
left=$(find / -xdev \( -path /packages -o -path /proc -o -path /dev \) -prune -o -iname '*hurray*' -print; ls -d /run/*hurray* 2>/dev/null || true)
[[ -z $left ]] || fail "left behind: $left"
left=$(dpkg-query -W -f '${Package} ${db:Status-Abbrev}\n' '*hurray*' 2>/dev/null | grep -v ' un' || true)
[[ -z $left ]] || fail "dpkg still knows: $left"
echo "-- all well"
