#!/bin/bash
# packages_test.sh FOLDER: the Debian packages there are the ones that should be, and lintian finds nothing to say against them.
set -euo pipefail
folder=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() {
    echo "FAILED: $*"
    exit 1
}

expected='hurrayctl hurrayd libhurray-client0 libhurray-dev libhurray2 python3-hurray'
found=$(for package in "$folder"/*.deb; do dpkg-deb --field "$package" Package; done | LC_ALL=C sort | tr '\n' ' ')
[[ $found == "$expected " ]] || fail "there are packages $found- expected $expected"

for package in "$folder"/*.deb; do
    dpkg-deb --raw-extract "$package" "$scratch/$(basename "$package" .deb)"
done
# What works only where it was built: paths of the build, and search paths for libraries.
while read -r file; do
    readelf --dynamic "$file" 2>/dev/null | grep -E 'R(UN)?PATH' && fail "$file looks for libraries in places of its own"
done < <(find "$scratch" -type f \( -path '*/bin/*' -o -name '*.so*' \))
grep -rlF "$(cd "$(dirname "$0")/../.." && pwd)" "$scratch" && fail "these name the folder that they were built in"
grep -qx 'ExecStart=/usr/bin/hurrayd' "$scratch"/hurrayd_*/usr/lib/systemd/system/hurrayd.service ||
    fail "hurrayd.service does not start /usr/bin/hurrayd"
for library in libhurray:2 libhurray-client:0; do
    name=${library%:*}${library#*:}
    grep -q "^${library%:*} ${library#*:} $name (>= " "$scratch/$name"_*/DEBIAN/shlibs || fail "$name: shlibs"
    grep -qx 'activate-noawait ldconfig' "$scratch/$name"_*/DEBIAN/triggers || fail "$name: triggers"
done

if command -v lintian >/dev/null; then
    as_root=()
    ((EUID != 0)) || as_root=(--allow-root)
    lintian "${as_root[@]}" --fail-on error,warning "$folder"/*.deb || fail "lintian has something to say"
    echo "lintian: $(lintian --print-version) has nothing to say"
else
    echo "SKIPPED: lintian is not installed"
fi
