#!/usr/bin/env bash
# Runs a command with a Docker engine: the one that is running, else a temporary one that ends with the command.
#
#   docker_engine.sh pytest tests/nodes/hosts/docker/test_docker_hosts.py          (as root)
#
# The temporary engine comes from Debian's packages, unpacked but not installed. It keeps data, state, socket, pid file
# and log in a temporary directory. It creates no bridge and no firewall rule and changes no kernel setting, so the
# machine is not affected. debootstrap is included in case no registry is reachable.
set -euo pipefail

PACKAGES="docker.io containerd runc debootstrap"
START_SECONDS=30
STOP_SECONDS=30

is_running() {
    curl --silent --fail --max-time 5 --output /dev/null --unix-socket "$1" http://engine/_ping
}

if [ -n "${DOCKER_HOST:-}" ] || is_running /var/run/docker.sock; then
    exec "$@"
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "docker_engine: no engine is running; starting one needs root and apt-get (or set DOCKER_HOST)" >&2
    exit 1
fi

home=$(mktemp --directory --tmpdir splitbrain-docker-XXXXXX)
engine=

finish() {
    if [ -n "$engine" ] && kill -TERM "$engine" 2>/dev/null; then
        # The engine ends the remaining containers and removes its mounts.
        timeout "$STOP_SECONDS" tail --pid="$engine" -f /dev/null || kill -KILL "$engine" || true
        wait "$engine" 2>/dev/null || true
    fi
    # The engine leaves the mount of the network namespace for containers on the machine's network.
    umount "$home"/exec/netns/* 2>/dev/null || true
    rm -rf --one-file-system "$home"
}
trap finish EXIT
trap 'exit 130' INT TERM

mkdir "$home/packages" "$home/root"
chmod 755 "$home"
# shellcheck disable=SC2086 # a list of package names
(cd "$home/packages" && apt-get download -q $PACKAGES >"$home/apt.log" 2>&1) || {
    tail -1 "$home/apt.log" >&2
    echo "docker_engine: downloading $PACKAGES failed; try apt-get update" >&2
    exit 1
}
for package in "$home"/packages/*.deb; do
    dpkg-deb --extract "$package" "$home/root"
done
rm -r "$home/packages"

export PATH="$home/root/usr/bin:$home/root/usr/sbin:$PATH:/usr/sbin:/sbin"
export DEBOOTSTRAP_DIR="$home/root/usr/share/debootstrap"
# The engine ends with this shell, for any reason.
setsid setpriv --pdeathsig TERM -- dockerd --host "unix://$home/engine.sock" --pidfile "$home/engine.pid" \
    --data-root "$home/data" --exec-root "$home/exec" \
    --bridge none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false --userland-proxy=false \
    >"$home/engine.log" 2>&1 &
engine=$!
deadline=$((SECONDS + START_SECONDS))
until is_running "$home/engine.sock"; do
    if [ "$SECONDS" -ge "$deadline" ] || ! kill -0 "$engine" 2>/dev/null; then
        echo "docker_engine: the engine does not respond; last output: $(tail -1 "$home/engine.log")" >&2
        exit 1
    fi
    sleep 0.1
done

export DOCKER_HOST="unix://$home/engine.sock"
"$@"
