#!/bin/bash
# Runs the installed units under a real systemd, in a container of this machine's own /usr: what lingers survives hurrayd's deaths and
# restarts, systemd counts what hurrayd believes to be stored, and what is withdrawn is gone.
set -euo pipefail
build=$1 cmake=$2

skip() {
    echo "SKIPPED: $*"
    exit 77
}
((EUID == 0)) || skip "only root may start a container"
command -v systemd-nspawn nsenter >/dev/null || skip "systemd-nspawn is not installed (Debian: systemd-container)"
[[ -x /usr/lib/systemd/systemd && -L /lib ]] || skip "this machine's /usr is not one that systemd boots from"

scratch=$(mktemp -d)
prefix=/opt/hurray # in the container
container=
init=
finish() {
    if [[ -n $init ]]; then
        kill -s RTMIN+4 "$init" 2>/dev/null || true
    fi
    if [[ -n $container ]]; then
        for _ in {1..100}; do
            kill -0 "$container" 2>/dev/null || break
            sleep 0.1
        done
        [[ -z $init ]] || kill -KILL "$init" 2>/dev/null || true
        kill -KILL "$container" 2>/dev/null || true
    fi
    rm -rf "$scratch"
}
trap finish EXIT
fail() {
    echo "FAILED: $*"
    inside journalctl --no-pager -u hurrayd.service 2>/dev/null | tail -n 30 || true
    exit 1
}

DESTDIR=$scratch/root "$cmake" --install "$build" --prefix "$prefix" --component daemon >"$scratch/install.log" 2>&1 ||
    fail "$(cat "$scratch/install.log")"
systemd-nspawn --register=no --keep-unit --quiet --private-network --boot --directory=/ --volatile=yes --console=pipe \
    --bind-ro="$scratch/root$prefix:$prefix" --bind-ro="$build" </dev/null >"$scratch/boot.log" 2>&1 &
container=$!
for _ in {1..100}; do
    init=$(awk '{print $1}' "/proc/$container/task/$container/children" 2>/dev/null || true)
    [[ -n $init && $(cat "/proc/$init/comm" 2>/dev/null) == systemd ]] && break
    kill -0 "$container" 2>/dev/null || {
        init=
        skip "no container boots here: $(tail -n 3 "$scratch/boot.log")"
    }
    sleep 0.1
done
[[ -n $init ]] || skip "no container boots here: $(tail -n 3 "$scratch/boot.log")"
inside() { timeout 60 nsenter -t "$init" -a -r -w -- "$@"; }
for _ in {1..200}; do
    inside test -S /run/systemd/private && break
    sleep 0.1
done
inside systemctl is-system-running --wait >/dev/null || true # "degraded" is good enough

inside systemd-sysusers "$prefix"/lib/sysusers.d/hurray.conf
inside cp -r "$prefix"/lib/systemd/system /run/systemd
inside systemctl daemon-reload
inside systemctl start hurrayd.socket hurrayd.service || fail "the units do not start"

peer() { inside "$build/bin/lingering_peer" "$@"; }
stored() { inside systemctl show --value -p NFileDescriptorStore hurrayd.service; }
expect() { [[ $2 == "$3" ]] || fail "$1: $2, not $3"; }
attach() { expect "the value of $1 $3" "$(peer attach "$1")" "$2"; }
# systemd reads a little later than it is told.
expect_stored() {
    for _ in {1..100}; do
        [[ $(stored) != "$1" ]] || return 0
        sleep 0.05
    done
    fail "$(stored) descriptors are stored, not $1"
}

expect_stored 1 # the journal
peer publish model 7
expect_stored 3
attach model 7 "before anything has happened"
for death in {1..6}; do # one more than systemd allows by itself in ten seconds
    inside systemctl kill --signal=SIGKILL hurrayd.service
    attach model 7 "after death $death"
done
expect_stored 3
inside systemctl restart hurrayd.service
attach model 7 "after a restart"
peer publish model 8
peer publish other 9
inside systemctl kill --signal=SIGABRT hurrayd.service
attach model 8 "of the next version"
attach other 9 "after an abort"
expect_stored 5
if (($(inside systemctl --version | awk 'NR == 1 {print $2}') >= 254)); then
    inside systemctl stop hurrayd.service # the socket stays
    inside systemctl start hurrayd.service
    attach model 8 "after a stop and a start"
fi
peer withdraw model
expect_stored 3
inside systemctl restart hurrayd.service
expect_stored 3
attach other 9 "at the end"
peer withdraw other
expect_stored 1
echo "what lingers survived 6 deaths, an abort and two restarts of hurrayd under $(inside systemctl --version | head -n 1)"
