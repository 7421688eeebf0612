#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Lines of the log as JSON, whatever strangers make a daemon write; in a journal, with their priority; and about slow requests.
# shellcheck disable=SC2154 # cluster.sh sets some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

# all_json FILE: each of its lines is an object that has what each has.
all_json() {
	python3 -c '
import json, re, sys
lines = open(sys.argv[1], "rb").read().decode("utf-8", "strict").splitlines()
assert lines, "no lines"
for line in lines:
    told = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", told["time"]), line
    assert told["level"] in ("error", "warn", "info", "debug") and told["component"] and told["message"], line
' "$1" || fail "$1: $(cat "$1")"
}

# ---- JSON

start_daemon all --data "$scratch/afar-data" --listen "$host:0" --memory 256M --log debug --log-format json --slow 0
AFAR_CLUSTER=$uri
export AFAR_CLUSTER
port=$(manager_port)
"$AFAR" key add alice --out alice
(umask 077 && sed 's/^alice/nobody/' alice >unknown)
refused 1 'does not accept the key' "$AFAR" --key unknown ns ls
# Bytes that are no TLS, and a name that is no UTF-8.
printf 'GET / HTTP/1.0\r\n\r\n' | python3 -c '
import socket, sys
peer = socket.create_connection((sys.argv[1], int(sys.argv[2])))
peer.sendall(sys.stdin.buffer.read())
peer.recv(1)
' "$host" "$port" 2>/dev/null || :
"$AFAR" ns create "$(printf 'a"b\\c\303\274')" 2>/dev/null || :
"$AFAR" ns create plain
has_line() {
	grep -q "$1" all.err
}
eventually has_line 'its key \\"nobody\\" is unknown'
eventually has_line 'it does not speak TLS'
all_json all.err
grep -q '"component":"rpc"' all.err || fail "$(cat all.err)"
grep -q '"message":"slow' all.err && fail "nothing was to be slow: $(cat all.err)"
stop_daemon all
# What ends it is such a line, too.
got=0
"$AFARD" --data "$scratch/none/data" --log none --log-format json >start.out 2>start.err || got=$?
[ "$got" -eq 1 ] || fail "afard ended with $got"
[ "$(wc -l <start.err)" -eq 1 ] || fail "$(cat start.err)"
all_json start.err
refused 2 "log-format: 'xml' is no format; use text or json" "$AFARD" --log-format xml
refused 2 "slow: '3600001' is not a number from 0 to 3600000" "$AFARD" --slow 3600001
printf '[afard]\nlog-format = yaml\n' >bad.ini
refused 2 "bad.ini:2: log-format 'yaml' is no format" "$AFARD" --config bad.ini
# The library, by its environment.
AFAR_LOG=debug AFAR_LOG_FORMAT=json "$AFAR" --cluster "afar://$host:$port" --key unknown ns ls 2>library.err >/dev/null || :
grep -v '^afar: ' library.err >library.json || :
[ ! -s library.json ] || all_json library.json

# ---- A journal

: >journal.err
JOURNAL_STREAM=$(stat -c %d:%i journal.err)
export JOURNAL_STREAM
start_daemon journal --data "$scratch/afar-data" --listen "$host:0" --memory 256M --slow 1
AFAR_CLUSTER=$uri
refused 1 'does not accept the key' "$AFAR" --key unknown ns ls
eventually grep -q '^<4>.*its key "nobody" is unknown' journal.err
got=0
"$AFARD" --data "$scratch/none/data" --log none 2>>journal.err || got=$?
grep -q '^<3>make the folder' journal.err || fail "$(cat journal.err)"
# Also before it knows its settings.
echo 'frobnicate = 1' >unknown.ini
"$AFARD" --config unknown.ini 2>>journal.err || got=$?
grep -q '^<3>unknown.ini:1: ' journal.err || fail "$(cat journal.err)"
unset JOURNAL_STREAM

# ---- A slow request: it waits until its server goes on

stop_daemon journal
start_manager
start_daemon one --role server --data "$scratch/one" --name one --key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 256M
stop_daemon manager
port=$(manager_port)
start_daemon manager --role manager --data "$scratch/manager" --listen "$host:$port" --log-format json --slow 1
"$AFAR" ns create wide 2>/dev/null || :
is_told() {
	kill -STOP "$(pid_of one)"
	"$AFAR" ns reserve wide 4M >reserve.out 2>&1 &
	reserving=$!
	"$AFAR" status >/dev/null 2>&1 || : # it waits for the server, too
	kill -CONT "$(pid_of one)"
	wait "$reserving" || :
	"$AFAR" ns release wide >/dev/null 2>&1 || :
	tail -n +$((skip + 1)) manager.err | grep '"message":"slow: namespace_reserve of namespace 1 for admin at 127'
}
skip=$(wc -l <manager.err)
eventually is_told
tail -n +$((skip + 1)) manager.err >slow.json
all_json slow.json
python3 -c '
import json
told = [t for t in map(json.loads, open("slow.json")) if t.get("kind") == "namespace_reserve"]
for t in told:
    assert t["principal"] == "admin" and t["namespace"] == 1 and len(t["session"]) == 16, t
    parts = t["queued_us"] + t["waited_us"] + t["worked_us"] + t["committed_us"]
    assert abs(parts - t["total_us"]) <= 4, t
' || fail "$(cat slow.json)"
