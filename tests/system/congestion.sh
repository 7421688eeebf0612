#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The congestion control of data connections: what each end was told is what its sockets have, as status says; what cannot be
# had is refused.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
: "${MOVER:?the path of mover}"
unset AFAR_CONGESTION

# What the kernel gives a socket, and what "auto" makes of it between two ends of this machine.
cat >names.py <<'END'
import socket

def get(s):
    return s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()

with socket.socket() as s:
    system = auto = get(s)
    for name in ("cubic", "reno"):
        if not auto.startswith("bbr"):
            break
        try:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        except OSError:
            continue
        auto = get(s)
print(system, auto)
END
python3 names.py >names.out
read -r system auto <names.out

# start_server_with NAME FLAG…
start_server_with() {
	server=$1
	shift
	start_daemon "$server" --role server --data "$PWD/$server" --name "$server" --data-listen 127.0.0.1:0 \
		--key "$PWD/manager/server.key" --manager "$AFAR_CLUSTER" --memory 64M "$@"
}

# says SERVERS CLIENTS: what status tells of the lanes, in order of the servers, and of what a mover's paths to them have.
cat >says.py <<'END'
import json, sys

status = json.load(open(sys.argv[1]))
lanes = [lane["congestion"] for server in status["servers"] for lane in server["lanes"]]
uses = [session["use"] for session in status["sessions"] if session["client"].endswith(" mover")]
paths = [path["congestion"] for use in uses for path in (use["paths"] if use else [])]
want = [words.split() for words in sys.argv[2:]]
assert [lanes, sorted(paths)] == want, (lanes, paths, want)
END
says() {
	"$AFAR" status --json >status.json
	python3 says.py status.json "$@"
}

# start_mover WORDS: a client that moves data until its gate, descriptor 5, is closed.
start_mover() {
	rm -f gate
	mkfifo gate
	env "$@" "$MOVER" 1048576 4096 <gate >mover.out 2>mover.err 5>&- &
	mover=$!
	running="$running $mover"
	exec 5>gate
}
stop_mover() {
	exec 5>&-
	wait "$mover" || fail "the mover ended with $?: $(cat mover.err)"
	forget "$mover"
}

start_manager
start_server_with one
start_server_with two --congestion reno
"$AFAR" ns create moved --stripe 4K
"$AFAR" ns reserve moved 8M
# Before there are connections: what they begin with.
eventually says "$auto reno" ""
"$AFAR" status >status.out
grep -q "^one .*tcp 127.0.0.1:[0-9]* ($auto)$" status.out || fail "status: $(cat status.out)"
grep -q "^two .*tcp 127.0.0.1:[0-9]* (reno)$" status.out || fail "status: $(cat status.out)"

# Each end has its own.
start_mover AFAR_PATH=tcp
eventually says "$auto reno" "$auto $auto"
stop_mover
start_mover AFAR_CONGESTION=reno
eventually says "$auto reno" "reno reno"
stop_mover
start_mover AFAR_CONGESTION=system
eventually says "$auto reno" "$system $system"
stop_mover

# From the file, too.
stop_daemon one
stop_daemon two
printf '[server]\ncongestion = system\n' >system.ini
start_server_with one --config system.ini
start_server_with two --config system.ini --congestion auto
eventually says "$system $auto" ""

# What is not there is refused before anything starts, at either end.
refused 2 "^afard: --congestion: 'pigeon' is not available here; .*modprobe tcp_pigeon.* reno" \
	"$AFARD" --data refused --listen 127.0.0.1:0 --congestion pigeon
printf '[server]\ncongestion = pigeon\n' >pigeon.ini
refused 2 "^afard: pigeon.ini:2: congestion 'pigeon' is not available" \
	"$AFARD" --data refused --listen 127.0.0.1:0 --config pigeon.ini
refused 2 "no name of a congestion control" "$AFARD" --data refused --congestion 'no pigeons'
[ ! -e refused ] || fail "a refused afard made its folder"
AFAR_CONGESTION=pigeon refused 1 "open a session: congestion control 'pigeon' is not available here; .*modprobe" "$AFAR" status
