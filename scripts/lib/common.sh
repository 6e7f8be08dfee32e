# Sourced by the scripts beside this folder: what they need of a Debian machine, and how it gets there. Bash.

set -euo pipefail

# Compilers and libraries of the build, what the tests use, what makes and judges packages, and what the Python package
# needs. Names are the same in Debian 12 and 13. (By make, g++ links the release build in parallel; without it, it warns.)
build_packages=(
    g++ cmake ninja-build ccache pkg-config make
    libboost-dev libprotobuf-dev protobuf-compiler libprotozero-dev libexpected-dev libcli11-dev libspdlog-dev libtomlplusplus-dev
    libsystemd-dev nlohmann-json3-dev
)
test_packages=(libgtest-dev libgmock-dev libbenchmark-dev valgrind libflatbuffers-dev flatbuffers-compiler python3-protobuf systemd)
packaging_packages=(dpkg-dev file gzip lintian debootstrap)
python_packages=(python3 python3-dev python3-venv python3-numpy python3-pil python3-pytest ca-certificates)

say() { printf '\n== %s\n' "$*"; }
note() { printf '   %s\n' "$*"; }
die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

as_root() {
    if ((EUID == 0)); then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "root is needed for '$*', and there is no sudo"
    fi
}

# have_packages NAME...: whether all of them are installed.
have_packages() { [[ -z $(missing_packages "$@") ]]; }

missing_packages() {
    local name state
    for name in "$@"; do
        state=$(dpkg-query -W -f '${db:Status-Abbrev}' "$name" 2>/dev/null || true)
        [[ $state == ?i* ]] || echo "$name"
    done
}

# ensure_packages NAME...: installs the Debian packages that are missing, and says which.
ensure_packages() {
    command -v dpkg-query >/dev/null || die "this script installs Debian packages; see README.md for other systems"
    local missing
    readarray -t missing < <(missing_packages "$@")
    if ((${#missing[@]} == 0)); then
        return
    fi
    say "installing Debian packages: ${missing[*]}"
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0)
    # A list that is missing or old shows in two ways: a package isn't known, or its file has gone from the mirror.
    if ! as_root "${apt[@]}" --no-install-recommends install "${missing[@]}" </dev/null >"$scratch/apt.log" 2>&1; then
        note "updating the package lists first"
        as_root "${apt[@]}" update </dev/null >"$scratch/apt.log" 2>&1 || {
            cat "$scratch/apt.log" >&2
            die "apt-get update failed"
        }
        as_root "${apt[@]}" --no-install-recommends install "${missing[@]}" </dev/null >"$scratch/apt.log" 2>&1 || {
            tail -n 40 "$scratch/apt.log" >&2
            die "apt-get install failed"
        }
    fi
    note "done"
}

# ensure_venv REQUIREMENTS_FILE...: the project's own .venv over Debian's Python, with the pinned packages in it.
# Debian's interpreter by its path: another one that comes first in PATH would not see the packages that apt installed.
ensure_venv() {
    local file wanted
    if [[ ! -x $root/.venv/bin/python ]] || ! "$root/.venv/bin/python" -c '' 2>/dev/null; then
        say "making .venv over $(/usr/bin/python3 --version)"
        rm -rf "$root/.venv"
        /usr/bin/python3 -m venv --system-site-packages "$root/.venv"
    fi
    for file in "$@"; do
        wanted=$(cat "$root/$file")
        local stamp="$root/.venv/installed-${file//\//-}"
        if [[ ! -f $stamp || $(cat "$stamp") != "$wanted" ]]; then
            say "installing from PyPI what $file names"
            "$root/.venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$root/$file" </dev/null
            printf '%s\n' "$wanted" >"$stamp"
        fi
    done
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/hurray.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
