#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# afar top: what it tells of a client that moves data over local, over tcp, and of one that stands still.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
: "${MOVER:?the path of mover}"

# hear NAME FD WORD: waits until the mover says so.
hear() {
	said=
	eval "read -r said <&$2" || fail "mover $1 is gone: $(cat "$1.err")"
	[ "$said" = "$3" ] || fail "mover $1: $said"
}

# start_mover NAME GATE MOUTH: in the background, until its gate, a file descriptor, is closed; returns when it moves.
start_mover() {
	mkfifo "$1.gate" "$1.mouth"
	"$MOVER" 65536 4096 <"$1.gate" >"$1.mouth" 2>"$1.err" &
	eval "pid_$1=$!"
	running="$running $!"
	eval "exec $2>$1.gate $3<$1.mouth"
	hear "$1" "$3" moving
}

# rest NAME GATE MOUTH
rest() {
	eval "echo >&$2"
	hear "$1" "$3" resting
}

start_manager
# shellcheck disable=SC2154 # cluster.sh assigns it
start_daemon both --role server --data "$scratch/both" --name both --data-listen local,127.0.0.1:0 \
	--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 256M
"$AFAR" ns create moved
"$AFAR" ns reserve moved 4M

# Servers and clients are given a moment to tell what they have counted: who is late is shown as he was before. So what is
# expected is waited for.

# Who only looks does nothing; nor is there anything to escape from a table.
looks_alone() {
	"$AFAR" top --interval 0.1 --count 2 >idle.out </dev/null
	cat idle.out
	[ "$(grep -c '^cluster up .* servers 1 (0 down), sessions 1,' idle.out)" -eq 2 ]
}
eventually looks_alone
grep -Eq '^both +up +local +- +0 +- +- +- ' idle.out || fail "top: $(cat idle.out)"
grep -Eq '^ +up +tcp +127.0.0.1:[0-9]+ +- +0 .* transport ' idle.out || fail "top: $(cat idle.out)"
if LC_ALL=C grep -q '[^ -~]' idle.out; then
	fail "top: control characters in: $(cat -v idle.out)"
fi

AFAR_PATH=tcp start_mover wire 5 7
start_mover near 6 8
shows_two_movers() {
	"$AFAR" top --interval 0.5 --count 2 >busy.out </dev/null
	cat busy.out
	[ "$(grep -c '^cluster up .* sessions 3,' busy.out)" -eq 2 ] &&
		[ "$(grep -Ec 'mover +admin +connected +[1-9].* (ns|us|ms|s)$' busy.out)" -eq 4 ]
}
eventually shows_two_movers

cat >busy.py <<'END'
import json, sys

lines = [json.loads(line) for line in open(sys.argv[1])]
assert len(lines) == 2
for top in lines:
    assert top["interval_ms"] >= 500
    (server,) = top["servers"]
    local, tcp = server["lanes"]
    assert (local["transport"], tcp["transport"]) == ("local", "tcp")
    # Nobody but clients can tell of local.
    assert local["counted_by"] is None and local["in_bytes_per_s"] is None
    assert tcp["counted_by"] == "transport" and tcp["in_bytes_per_s"] > 0 and tcp["out_bytes_per_s"] > 0
    said = {entry["transport"]: entry for entry in server["by_clients"]}
    for transport in ("local", "tcp"):
        assert said[transport]["read_bytes_per_s"] > 0 and said[transport]["written_bytes_per_s"] > 0
    movers = [s for s in top["sessions"] if s["client"].endswith(" mover")]
    assert len(movers) == 2 and movers == top["sessions"][:2]  # the busiest first
    for session in movers:
        assert session["state"] == "connected" and session["failed_per_s"] == 0
        for kind in ("read", "write"):
            one = session["operations"][kind]
            # They are read one after the other while they change: of the same instant they are at rest, below.
            assert one["nr_per_s"] > 0 and 2048 < one["bytes_per_s"] / one["nr_per_s"] < 8192
            assert 0 < one["p50_ns"] <= one["p99_ns"] <= one["p999_ns"]
        assert session["operations"]["atomic"]["nr_per_s"] > 0
    assert {p["transport"] for s in movers for p in s["paths"]} == {"local", "tcp"}
END
tells_of_two_movers() {
	"$AFAR" top --interval 0.5 --count 2 --json >busy.json
	python3 busy.py busy.json || { cat busy.json && false; }
}
eventually tells_of_two_movers

# A client that is stopped: it is shown with what it said last, and holds nobody up for long.
kill -STOP "$(pid_of near)"
timeout 60 "$AFAR" top --interval 0.1 --count 1 >stopped.out || fail "top: a stopped client holds it up"
grep -q ' mover ' stopped.out || fail "top: $(cat stopped.out)"
kill -CONT "$(pid_of near)"

# At rest, all that is counted fits: rounds of 16 writes, 16 reads and a word.
rest wire 5 7
rest near 6 8
cat >rest.py <<'END'
import json, sys

movers = [s for s in json.load(open(sys.argv[1]))["sessions"] if s["client"].endswith(" mover")]
assert len(movers) == 2
for use in (session["use"] for session in movers):
    rounds = use["operations"]["atomic"]["nr"]
    assert rounds > 0 and use["operations"]["atomic"]["bytes"] == 8 * rounds
    for kind in ("read", "write"):
        one = use["operations"][kind]
        assert (one["nr"], one["bytes"], one["nr_failed"]) == (16 * rounds, 65536 * rounds, 0)
    (path,) = use["paths"]
    assert (path["bytes_read"], path["bytes_written"]) == (65536 * rounds, 65536 * rounds)
assert {use["paths"][0]["transport"] for use in (session["use"] for session in movers)} == {"local", "tcp"}
END
counts_fit() {
	"$AFAR" status --json >rest.json
	python3 rest.py rest.json || { cat rest.json && false; }
}
eventually counts_fit

exec 5>&- 6>&-
wait "$(pid_of wire)" || fail "mover: $(cat wire.err)"
wait "$(pid_of near)" || fail "mover: $(cat near.err)"

# On a terminal: in place, and as it was when it ends, by its count, by q, by a signal.
cat >terminal.py <<'END'
import fcntl, os, select, signal, struct, subprocess, termios

def set_size(fd, lines, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

def take_terminal():
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # what runs in the background may have it ignored

def run(arguments, act):
    """Runs it on a terminal of 12 lines by 50 columns. Once it shows something, `act` is called until it is true."""
    master, slave = os.openpty()
    set_size(slave, 12, 50)
    before = termios.tcgetattr(slave)
    top = subprocess.Popen(
        [os.environ["AFAR"], "top", "--interval", "0.2", *arguments], stdin=slave, stdout=slave, stderr=slave,
        start_new_session=True, preexec_fn=take_terminal)
    shown, has_acted = b"", False
    while True:
        has_ended = top.poll() is not None
        while select.select([master], [], [], 0 if has_ended else 0.05)[0]:
            shown += os.read(master, 65536)
        if has_ended:
            break
        if not has_acted and b"SESSION" in shown:
            has_acted = act(top.pid, master, shown)
    assert top.returncode == 0, (top.returncode, shown)
    assert termios.tcgetattr(slave) == before
    assert shown.count(b"\x1b[?1049h") == 1 and shown.count(b"\x1b[?1049l") == 1, shown
    assert shown.index(b"\x1b[?25l") < shown.rindex(b"\x1b[?25h"), shown
    screen = shown[shown.index(b"\x1b[?25l") + 6 : shown.index(b"\x1b[?25h")]
    for page in screen.split(b"\x1b[H")[1:]:
        lines = page.replace(b"\x1b[K", b"").replace(b"\x1b[J", b"").split(b"\r\n")
        assert len(lines) <= 12 and max(map(len, lines)) <= 50, lines
    os.close(master)
    os.close(slave)
    return screen

def widest(page):
    return max(map(len, page.replace(b"\x1b[K", b"").split(b"\r\n")))

def shrink(pid, fd, shown):
    """Until a whole page is not wider than the terminal has become; then it may end."""
    set_size(fd, 8, 30)
    last = shown.split(b"\x1b[H")[-1]
    return last.endswith(b"\x1b[J") and widest(last) <= 30 + len(b"\x1b[J") and os.write(fd, b"q")

run(["--count", "3"], lambda pid, fd, shown: True)
run([], shrink)
# It is drawn anew at once, not when its time comes: what was seen is the same.
first, second = run(["--interval", "3"], shrink).split(b"\x1b[H")[1:3]
assert first[:20] == second[:20], (first, second)
run([], lambda pid, fd, shown: os.write(fd, b"q"))
run([], lambda pid, fd, shown: os.write(fd, b"\x03"))
run([], lambda pid, fd, shown: os.kill(pid, signal.SIGTERM) is None)
END
timeout 60 python3 terminal.py || fail "top on a terminal"

for interval in 0 -1 nan inf 1e400 0x 5s ''; do
	refused 2 'seconds' "$AFAR" top --interval "$interval" --count 1
done
for count in 0 -1 99999999999 nan; do
	refused 2 'count' "$AFAR" top --count "$count"
done

# Servers that are down stay in sight, while they hold something.
kill_daemon both
eventually sh -c '"$AFAR" top --interval 0.1 --count 1 | grep -Eq "^both +down +local|servers 0"'
