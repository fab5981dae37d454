#!/usr/bin/env bash
# Set-up of a fresh Debian or Ubuntu machine: the system packages (as root) and the virtual environment.
#
#   bootstrap.sh system        install what is missing; without root, say what to install
#   bootstrap.sh python DIR    make the virtual environment DIR from requirements.lock
#   bootstrap.sh check         one line for each program that is still missing
#
# What works on this machine in detail is `splitbrain doctor`'s subject, not this script's.
set -euo pipefail
cd "$(dirname "$0")"

# program:package pairs that Debian 12+ and Ubuntu 22.04+ agree on
NEEDED="java:openjdk-17-jre-headless mvn:maven nft:nftables ip:iproute2 unshare:util-linux nsenter:util-linux mount:mount"
export PATH="$PATH:/usr/sbin:/sbin"

missing_packages() {
    for pair in $NEEDED; do
        command -v "${pair%%:*}" >/dev/null || echo "${pair##*:}"
    done | sort -u | tr '\n' ' '
}

find_python() {
    for name in python3.13 python3.12 python3.11 python3; do
        if "$name" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    return 1
}

system() {
    local packages
    packages=$(missing_packages)
    find_python >/dev/null || packages="$packages python3 python3-venv"
    [ -n "${packages// /}" ] || return 0
    if [ "$(id -u)" != 0 ]; then
        echo "bootstrap: missing system packages; as root: apt-get install -y $packages" >&2
        find_python >/dev/null || exit 1
        return 0
    fi
    if ! command -v apt-get >/dev/null; then
        echo "bootstrap: no apt-get here; install by your own package manager: $packages" >&2
        exit 1
    fi
    apt-get update -q
    # shellcheck disable=SC2086 # a list of package names
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $packages
}

python() {
    local interpreter
    if ! interpreter=$(find_python); then
        echo "bootstrap: no Python from 3.11 to 3.13 with venv; as root: apt-get install -y python3 python3-venv" >&2
        exit 1
    fi
    "$interpreter" -m venv "$1"
    "$1/bin/pip" install -q --require-hashes -r requirements.lock
    "$1/bin/pip" install -q --no-deps --no-build-isolation -e .
    # Spark starts a third faster from an archive of its classes; without it, or without Java, it only starts slower.
    ! command -v java >/dev/null || "$1/bin/python" -m checkers.archive >/dev/null || true
}

check() {
    local packages
    packages=$(missing_packages)
    [ -z "${packages// /}" ] || echo "bootstrap: still missing: $packages(as root: apt-get install -y $packages)" >&2
}

"$@"
