#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Keys in a daemon's memory: wiped where they end, and in no core.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

[ "$(id -u)" = 0 ] || { echo "only root can look into a daemon's memory"; exit 77; }
start_manager
start_server one 32M

# finds PID SECRET…: how often the secrets, as bytes or in digits, are in memory that is the process's alone.
finds() {
	python3 - "$@" <<'END'
import re, sys

secrets = [part for text in sys.argv[2:] for part in (bytes.fromhex(text), text.encode())]
found = 0
memory = open(f"/proc/{sys.argv[1]}/mem", "rb", 0)
for line in open(f"/proc/{sys.argv[1]}/maps"):
    begin, end, rights, inode = re.match(r"(\w+)-(\w+) (\S+) \S+ \S+ (\d+)", line).groups()
    if not rights.startswith("rw") or inode != "0":
        continue
    memory.seek(int(begin, 16))
    try:
        part = memory.read(int(end, 16) - int(begin, 16))
    except OSError:
        continue
    found += sum(part.count(secret) for secret in secrets)
print(found)
END
}

secret_of() {
	cut -d : -f 2 "$1"
}

# Of those that were used and revoked nothing is left. One that is good is found, or nothing would be shown. The log has
# keys to wipe, too, after a start.
"$AFAR" key add bob --out bob
secrets=
for name in alice carol dave erin frank; do
	"$AFAR" key add "$name" --out "$name"
	"$AFAR" --key "$name" ns ls >/dev/null
	secrets="$secrets $(secret_of "$name")"
done
nothing_left() {
	# shellcheck disable=SC2086 # words
	left=$(finds "$(pid_of manager)" $secrets)
	[ "$left" -eq 0 ] || fail "revoked keys are $left times in the manager's memory $1"
}
kill_daemon manager
start_manager "$(manager_port)"
for name in alice carol dave erin frank; do
	"$AFAR" key revoke "$name"
done
nothing_left "after a start"
for name in alice carol dave erin frank; do
	"$AFAR" key add "$name" --out "$name.new"
	secrets="$secrets $(secret_of "$name.new")"
done
for name in alice carol dave erin frank; do
	"$AFAR" key revoke "$name"
done
nothing_left "after they were made"
[ "$(finds "$(pid_of manager)" "$(secret_of bob)")" -gt 0 ] || fail "no key is found where one must be"

# A server has its own key, and no client's.
# shellcheck disable=SC2086 # words
[ "$(finds "$(pid_of one)" $secrets "$(secret_of bob)" "$(secret_of manager/key)")" -eq 0 ] ||
	fail "a server knows a client's key"

# Where cores are written at all, daemons leave none.
python3 - <<'END' || fail "a daemon left a core"
import os, resource, signal, subprocess, sys

def leaves_core(command, is_ready):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2))
    if is_ready:
        process.stdout.readline()
    os.kill(process.pid, signal.SIGABRT)
    return os.WCOREDUMP(os.waitpid(process.pid, 0)[1])

afard = [os.environ["AFARD"], "--role", "manager", "--data", "other", "--listen", "127.0.0.1:0"]
if leaves_core(["sleep", "60"], False):
    sys.exit(leaves_core(afard, True))
print("no cores are written here")
END
