"""What SSH hosts are asked to do, as programs for their POSIX shell; values reach them as arguments, never as text.

What may live here: constants. What may not: anything that runs on this machine.

A node's directory holds, besides the system's files, `lease` while a controller holds it, and `server.pid`: the pid of
its server and the tick it started at (proc(5), field 22), by which a pid that is used again is told apart.
"""

from __future__ import annotations

from shlex import quote

STAT = """\
# Sets state and ticks of the process $1; fails where there is none. Nothing before the last bracket can be trusted.
stat() {
    state= ticks=
    read -r line 2>/dev/null <"/proc/$1/stat" || return 1
    set -f
    # shellcheck disable=SC2086 # the fields, one an argument
    set -- ${line##*) }
    state=$1 ticks=${20}
}
# Sets pid, and succeeds where the server of this directory is alive.
server() {
    read -r pid started 2>/dev/null <server.pid && stat "$pid" && [ "$ticks" = "$started" ] && [ "$state" != Z ]
}
"""

UNDO = (
    STAT
    + """\
# The server of this directory is gone when this returns, a paused one too, and its pid file.
end_server() {
    rm -f lease
    while server; do
        kill -s KILL "$pid" 2>/dev/null
        sleep 0.02
    done
    rm -f server.pid
}
# Fails where the table is there and cannot be deleted.
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
# `timeout` reads no more than a line at a time from a pipe that gets one in several seconds.
trap '' HUP PIPE TERM
table=$2 silence=$3 privileged=$4
mkdir -p "$1" && cd "$1" || exit 1
: >lease || exit 1
echo held
while beat=$(timeout "$silence" head -n 1) && [ -n "$beat" ]; do :; done
end_server
drop_table && echo undone
"""
)

HEAL = (
    UNDO
    + """\
# HEAL DIRECTORY TABLE PRIVILEGED: undo what a controller that is gone may have left; harmless where there is nothing.
table=$2 privileged=$3
if cd "$1" 2>/dev/null; then end_server; fi
drop_table
"""
)

BEGIN = STAT + 'stat $$; echo "$$ $ticks" >server.pid; [ -e lease ] || exit 1; exec "$@"'

LIFE = (
    STAT
    + f"""\
# LIFE DIRECTORY LOG COMMAND...: start a server in a session of its own, and tell its pid, its states and its end.
# It names itself in server.pid before it looks for the lease, and the lease goes before server.pid is read: one of them
# sees the other, so that no server begins unseen. Its pid is told when it stands there: nobody pauses it before.
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
# SIGNAL DIRECTORY NAME: send the server a signal; nothing where it is gone.
cd "$1" && server && kill -s "$2" "$pid"
exit 0
"""
)

COPIES = """\
# COPIES DIRECTORY FILE...: tell what files hold whenever that changed, in base64 after the file's name: of a .log what
# was appended, of any other file all. Ends when standard input does: waiting for that is also the pause between looks.
cd "$1" || exit 1
shift
told=$(mktemp -d) || exit 1
trap 'rm -rf "$told"' EXIT
trap 'exit 0' PIPE HUP TERM
until timeout 0.1 cat >/dev/null; do
    number=0
    for file in "$@"; do
        number=$((number + 1))
        [ -e "$file" ] || continue
        case $file in
            *.log)
                size=$(wc -c <"$file") from=$(cat "$told/$number" 2>/dev/null || echo 0)
                [ "$size" -gt "$from" ] || continue
                echo "$file $(tail -c "+$((from + 1))" "$file" | head -c "$((size - from))" | base64 -w 0)"
                echo "$size" >"$told/$number" ;;
            *)
                cmp -s "$file" "$told/$number" && continue
                cp "$file" "$told/$number" && echo "$file $(base64 -w 0 <"$told/$number")" ;;
        esac
    done
done
"""

PROBE = """\
# PROBE ADDRESS PORT: sends datagrams as standard input asks (ROUND SOURCE ADDRESS...) and tells those that arrive.
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
