#!/bin/bash
# wheel_test.sh PYTHON BIN WHEEL: the wheel is of the right kind for this Python, and installed into an environment of its own it
# passes the Python package's tests, against the programs in BIN.
set -euo pipefail
python=$1 bin=$(realpath "$2") wheel=$(realpath "$3")
tests=$(cd "$(dirname "$0")/../python" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset PYTHONPATH
fail() {
    echo "FAILED: $*"
    exit 1
}

version=$("$python" -c 'import sys; print("%d%02d" % sys.version_info[:2])')
if ((version >= 312)); then
    tag=cp312-abi3
else
    tag=cp$version-cp$version
fi
[[ $wheel == *-$tag-linux_*.whl ]] || fail "$(basename "$wheel") has not the tag $tag"

"$python" -m venv --system-site-packages "$scratch/venv"
"$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps "$wheel"
cd /
package=$("$scratch/venv/bin/python" -c 'import hurray, pathlib; print(pathlib.Path(hurray.__file__).parent)')
[[ $package == "$scratch"/venv/* ]] || fail "hurray is imported from $package"
for file in "$package"/*.so*; do
    search=$(readelf --dynamic "$file" | sed -nE 's/.*R(UN)?PATH.*\[(.*)\]/\2/p')
    # shellcheck disable=SC2016 # meant for the dynamic linker
    [[ $search == '$ORIGIN' ]] || fail "$file looks for libraries in '$search'"
done
((version < 312)) || [[ -e $package/_hurray.abi3.so ]] || fail "no _hurray.abi3.so in $(ls "$package")"

HURRAY_BIN_DIR=$bin PYTHONDONTWRITEBYTECODE=1 \
    "$bin/hurrayctl" run -- "$scratch/venv/bin/python" -m pytest -q -p no:cacheprovider "$tests"
