#!/bin/bash
# Installs the build into a prefix, moves the prefix, and builds, links and runs a small project against it: by CMake and
# by pkg-config, in C and in C++.
set -euo pipefail
build=$1 cmake=$2 cc=$3 cxx=$4 libdir=$5 generator=$6
project=$(cd "$(dirname "$0")/project" && pwd)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$cmake" --install "$build" --prefix "$scratch/first" >"$scratch/install.log" || {
    cat "$scratch/install.log"
    exit 1
}
prefix=$scratch/moved
mv "$scratch/first" "$prefix"
unset HURRAY_SOCKET LD_LIBRARY_PATH PKG_CONFIG_PATH CMAKE_PREFIX_PATH

echo "-- what lies in the prefix"
(cd "$prefix" && find . -type f -o -type l | sort)
for file in include/hurray.h include/hurray_client.h include/hurray/hurray.hpp include/hurray/client.hpp \
    "$libdir/libhurray.so.2" "$libdir/libhurray-client.so.0" bin/hurrayd bin/hurrayctl; do
    [[ -e $prefix/$file ]] || {
        echo "missing: $file"
        exit 1
    }
done
if grep -rlE "$build|$scratch/first" "$prefix/$libdir/cmake" "$prefix/$libdir/pkgconfig"; then
    echo "these name a folder of the machine that built them"
    exit 1
fi

# The project's programs print the same line however they were built. The C ABI's version and the descriptor's length are
# facts of the interface; an address at which nobody listens is refused as such.
expect() {
    local seen
    seen=$("$@")
    [[ $seen == "abi 2, descriptor 61 bytes, connect HURRAY_ERR_DAEMON_UNAVAILABLE" ]] || {
        echo "$* printed: $seen"
        exit 1
    }
}

echo "-- find_package"
"$cmake" -G "$generator" -S "$project" -B "$scratch/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_CXX_COMPILER="$cxx" >"$scratch/cmake.log" || {
    cat "$scratch/cmake.log"
    exit 1
}
"$cmake" --build "$scratch/cmake"
expect "$scratch/cmake/uses_hurray_c"
expect "$scratch/cmake/uses_hurray_cpp"

# refused MESSAGE COMPONENT...: find_package fails, and says why.
refused() {
    local message=$1
    shift
    mkdir -p "$scratch/asks"
    printf 'cmake_minimum_required(VERSION 3.25)\nproject(asks C)\nfind_package(hurray REQUIRED COMPONENTS %s)\n' "$*" \
        >"$scratch/asks/CMakeLists.txt"
    if "$cmake" -G "$generator" -S "$scratch/asks" -B "$scratch/asks/build" -DCMAKE_PREFIX_PATH="$prefix" \
        -DCMAKE_C_COMPILER="$cc" >"$scratch/asks.log" 2>&1; then
        echo "find_package found the components $*"
        exit 1
    fi
    tr -s ' \n' ' ' <"$scratch/asks.log" | grep -qF "$message" || {
        cat "$scratch/asks.log"
        exit 1
    }
}
refused 'hurray has no component "cuda"; its components are: hurray, client' client cuda

echo "-- pkg-config"
export PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig
flags=$(pkg-config --cflags --libs hurray-client)
# shellcheck disable=SC2086 # flags are words
"$cc" -std=c99 -Wall -Wextra -Wpedantic -Werror "$project/main.c" $flags -o "$scratch/pc_c"
# shellcheck disable=SC2086
"$cxx" -std=c++20 -Wall -Wextra -Wpedantic -Werror "$project/main.cpp" $flags -o "$scratch/pc_cpp"
pkg-config --exists 'hurray >= 0.1'
LD_LIBRARY_PATH=$prefix/$libdir expect "$scratch/pc_c"
LD_LIBRARY_PATH=$prefix/$libdir expect "$scratch/pc_cpp"

echo "-- the programs find each other and their libraries"
"$prefix/bin/hurrayd" --version
"$prefix/bin/hurrayctl" run -- "$prefix/bin/hurrayctl" status
