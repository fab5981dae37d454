"""The POSIX shell scripts that run on SSH hosts; values are passed as arguments, never inserted into the text.

Contains only constants. Does not run anything on this machine.

Besides the system's files, a node's directory contains `lease` while a controller holds it, and `server.pid`: the pid
of its server and the clock tick of its start (proc(5), field 22), which distinguishes it from a reused pid.
"""

from __future__ import annotations

from shlex import quote

STAT = """\
# Sets state and ticks of the process $1; fails if there is none. Text before the last bracket cannot be trusted.
stat() {
    state= ticks=
    read -r line 2>/dev/null <"/proc/$1/stat" || return 1
    set -f
    # shellcheck disable=SC2086 # one argument per field
    set -- ${line##*) }
    state=$1 ticks=${20}
}
# Sets pid; succeeds if the server of this directory is alive.
server() {
    read -r pid started 2>/dev/null <server.pid && stat "$pid" && [ "$ticks" = "$started" ] && [ "$state" != Z ]
}
"""

UNDO = (
    STAT
    + """\
# Kills the server of this directory, even if it is paused, and removes its pid file when it is gone.
end_server() {
    rm -f lease
    while server; do
        kill -s KILL "$pid" 2>/dev/null
        sleep 0.02
    done
    rm -f server.pid
}
# Deletes the table; fails if it exists and cannot be deleted.
drop_table() {
    if $privileged nft list table ip "$table" >/dev/null 2>&1; then
        $privileged nft delete table ip "$table"
    fi
}
"""
)

LEASE = (
    UNDO
    + """\
# LEASE DIRECTORY TABLE SILENCE_SECONDS PRIVILEGED: hold until standard input ends or is silent, then undo.
# Heartbeats are seconds apart, so `head` never reads more than one line from the pipe.
trap '' HUP PIPE TERM
table=$2 silence=$3 privileged=$4
mkdir -p "$1" && cd "$1" || exit 1
: >lease || exit 1
echo held
while heartbeat=$(timeout "$silence" head -n 1) && [ -n "$heartbeat" ]; do :; done
end_server
drop_table && echo undone
"""
)

HEAL = (
    UNDO
    + """\
# HEAL DIRECTORY TABLE PRIVILEGED: undo what a dead controller left; does nothing if there is nothing.
table=$2 privileged=$3
if cd "$1" 2>/dev/null; then end_server; fi
drop_table
"""
)

BEGIN = STAT + 'stat $$; echo "$$ $ticks" >server.pid; [ -e lease ] || exit 1; exec "$@"'

RUN_SERVER = (
    STAT
    + f"""\
# RUN_SERVER DIRECTORY LOG COMMAND...: start a server in a session of its own; report its pid, its states and its end.
# The server writes server.pid before it checks for the lease, and the lease is removed before server.pid is read. One
# of the two always sees the other, so no server escapes the lease. The pid is reported only once it is in server.pid,
# so the server cannot be paused earlier.
cd "$1" || exit 1
log=$2
shift 2
rm -f server.pid
setsid sh -c {quote(BEGIN)} server "$@" >>"$log" 2>&1 </dev/null &
child=$!
until read -r pid started 2>/dev/null <server.pid || ! stat "$child" || [ "$state" = Z ]; do
    sleep 0.01
done
echo "pid $child"
(
    last=
    while stat "$child" && [ "$state" != Z ]; do
        case $state in [Tt]) state=paused ;; *) state=running ;; esac
        [ "$state" = "$last" ] || echo "$state"
        last=$state
        sleep 0.05
    done
) &
wait "$child"
code=$?
kill $! 2>/dev/null
wait $! 2>/dev/null
echo "ended $code"
"""
)

SIGNAL = (
    STAT
    + """\
# SIGNAL DIRECTORY NAME: send the server a signal; does nothing if it is gone.
cd "$1" && server && kill -s "$2" "$pid"
exit 0
"""
)

MIRROR = """\
# MIRROR DIRECTORY FILE...: print changed files, each line a name and base64 content: for a .log the appended part, for
# any other file all of it. Ends with standard input; waiting for that end is also the pause between two polls.
cd "$1" || exit 1
shift
sent=$(mktemp -d) || exit 1
trap 'rm -rf "$sent"' EXIT
trap 'exit 0' PIPE HUP TERM
until timeout 0.1 cat >/dev/null; do
    number=0
    for file in "$@"; do
        number=$((number + 1))
        [ -e "$file" ] || continue
        case $file in
            *.log)
                size=$(wc -c <"$file") from=$(cat "$sent/$number" 2>/dev/null || echo 0)
                [ "$size" -gt "$from" ] || continue
                echo "$file $(tail -c "+$((from + 1))" "$file" | head -c "$((size - from))" | base64 -w 0)"
                echo "$size" >"$sent/$number" ;;
            *)
                cmp -s "$file" "$sent/$number" && continue
                cp "$file" "$sent/$number" && echo "$file $(base64 -w 0 <"$sent/$number")" ;;
        esac
    done
done
"""

PROBE = """\
# PROBE ADDRESS PORT: sends datagrams as requested on standard input (ROUND SOURCE ADDRESS...), prints those that
# arrive.
import os, select, socket, sys
probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
probe.bind((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
rest = b""
while True:
    for ready in select.select([0, probe], [], [])[0]:
        if ready is probe:
            print(probe.recv(64).decode("ascii", "replace"), flush=True)
            continue
        chunk = os.read(0, 65536)
        if not chunk:
            sys.exit(0)
        *lines, rest = (rest + chunk).split(b"\\n")
        for line in lines:
            number, source, *addresses = line.decode().split()
            for address in addresses:
                try:
                    probe.sendto(f"{number} {source}".encode(), (address, int(sys.argv[2])))
                except OSError:
                    pass
"""
