#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Where a server is reached: at the ports that it was told, also its stores, which come and go; and at sockets of local lanes that no
# other server has, wherever XDG_RUNTIME_DIR is.
# shellcheck disable=SC2154 # cluster.sh sets some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

# serve NAME FLAG…: starts a server.
serve() {
	server=$1
	shift
	start_daemon "$server" --role server --data "$scratch/$server" --name "$server" --key "$scratch/manager/server.key" \
		--manager "$AFAR_CLUSTER" --memory 32M "$@"
}

# has_port PORT PATH: the store at that path is reached at that port.
has_port() {
	"$AFAR" store ls | grep -Eq " $host:$1 +([^ ]*/)?$2\$" || fail "no $2 at $host:$1: $("$AFAR" store ls)"
}

# ---- Ports

start_manager
for name in a b c; do
	"$AFAR" flash create "$PWD/$name" --size 64M >/dev/null
done
serve one --control "$host:7412" --data-listen "tcp:$host:7413" --flash-port 7420 --flash a --flash b
"$AFAR" status --json | grep -q "\"control_address\": \"$host:7412\"" || fail "$("$AFAR" status --json)"
"$AFAR" status | grep -Eq "^one .*\*tcp $host:7413" || fail "$("$AFAR" status)"
has_port 7420 a
has_port 7421 b
"$AFAR" store add one "$PWD/c" >/dev/null
has_port 7422 c
# The place of one that has gone is free for the next.
"$AFAR" store rm "$("$AFAR" store ls | awk '/7420/ { print $1 }')" >/dev/null
"$AFAR" store add one "$PWD/a" >/dev/null
has_port 7420 a
random_file in 1000000
"$AFAR" ns create f --tier flash --width 1
"$AFAR" region put in f:a >/dev/null
"$AFAR" region get f:a out >/dev/null
same in out
"$AFAR" flash create "$PWD/d" --size 64M >/dev/null
refused 1 "listen on .*$host:7420: Address already in use" "$AFARD" --role server --data other --name other --flash d --flash-port 7420 \
	--data-listen "tcp:$host:0" --key manager/server.key --manager "$AFAR_CLUSTER" --memory 32M
refused 2 'flash-port: .0. is not a number from 1 to 65520' "$AFARD" --flash-port 0
refused 2 'flash-port: .65521. is not a number' "$AFARD" --flash-port 65521
stop_daemon one

# ---- Sockets

# place: where the local lane of the server is that is up.
place() {
	"$AFAR" status --json | sed -n 's/.*"address": "unix:\(.*\)@.*/\1/p'
}

# A long name is no reason to go elsewhere, up to what a socket can have.
XDG_RUNTIME_DIR=$scratch/a-folder-with-a-longer-name
mkdir -m 700 "$XDG_RUNTIME_DIR"
export XDG_RUNTIME_DIR
serve two --data-listen local
[ "$(dirname "$(place)")" = "$XDG_RUNTIME_DIR/afar" ] || fail "the socket is $(place)"
"$AFAR" ns create m --width 1
"$AFAR" region put in m:a >/dev/null
"$AFAR" region get m:a out >/dev/null
same in out
stop_daemon two
XDG_RUNTIME_DIR=$scratch/a-folder-$(printf '%082d' 0)
mkdir -m 700 "$XDG_RUNTIME_DIR"
serve two --data-listen local
[ "$(dirname "$(place)")" = "/tmp/afar-$(id -u)" ] || fail "the socket is $(place)"
grep -q 'XDG_RUNTIME_DIR has more than 82 bytes.*/tmp/afar-' two.err || fail "nothing is said: $(cat two.err)"
stop_daemon two
unset XDG_RUNTIME_DIR

# In two containers that share the folder of sockets both have pid 1.
if unshare --pid --fork true 2>/dev/null; then
	XDG_RUNTIME_DIR=$scratch/shared
	mkdir -m 700 "$XDG_RUNTIME_DIR"
	export XDG_RUNTIME_DIR
	cat >contained <<END
#!/bin/sh
exec unshare --pid --fork --kill-child "$AFARD" "\$@"
END
	chmod +x contained
	AFARD=$PWD/contained
	serve three --data-listen local
	serve four --data-listen local
	[ "$("$AFAR" status | grep -Ec '^(three|four) +up ')" -eq 2 ] || fail "$("$AFAR" status)"
	for name in three four; do
		# shellcheck disable=SC2046 # numbers
		kill -TERM $(children "$(pid_of "$name")")
		wait "$(pid_of "$name")" || fail "afard $name ended with $? after SIGTERM"
		forget "$(pid_of "$name")"
	done
fi
