# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the tests of exported volumes, after cluster.sh: exports in the background, and what they need.
# shellcheck shell=sh disable=SC2154,SC2034 # cluster.sh has the rest, and the tests use it

# Private folders of exports are made here, so that what is left of one is found.
XDG_RUNTIME_DIR=$scratch/runtime
export XDG_RUNTIME_DIR
mkdir -m 700 "$XDG_RUNTIME_DIR"

# requires PROGRAM PACKAGE: or the test is skipped.
requires() {
	command -v "$1" >/dev/null && return
	echo "$1 is not there (apt install $2)"
	exit 77
}

requires nbdkit nbdkit
requires nbdinfo libnbd-bin
requires qemu-io qemu-utils
if [ ! -e "${NBDKIT_PLUGIN:-}" ]; then
	echo "the plugin was not built: there is no header of nbdkit (apt install nbdkit-plugin-dev)"
	exit 77
fi

# start_store NAME [SIZE]: a server with memory and flash.
start_store() {
	start_daemon "$1" --role server --data "$scratch/$1" --name "$1" --data-listen "tcp:$host:0" \
		--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 128M --flash "${2:-160M}"
}

# start_export NAME VOLUME FLAG…: in the background, until it serves. $nbd is what it announced.
start_export() {
	name=$1
	shift
	rm -f "$scratch/$name.uri"
	mkfifo "$scratch/$name.uri"
	"$AFAR" export "$@" >"$scratch/$name.uri" 2>"$scratch/$name.err" &
	eval "pid_$name=$!"
	running="$running $!"
	read -r nbd <"$scratch/$name.uri" || fail "export $* did not start: $(cat "$scratch/$name.err")"
}

# ends_with STATUS NAME: the export ends by itself, or has been told to.
ends_with() {
	eventually has_ended "$(pid_of "$2")"
	got=0
	wait "$(pid_of "$2")" || got=$?
	forget "$(pid_of "$2")"
	[ "$got" -eq "$1" ] || fail "the export $2 ended with $got, not $1: $(cat "$scratch/$2.err")"
}

# end_export NAME: by SIGTERM; it must end well, and say nothing.
end_export() {
	kill -TERM "$(pid_of "$1")"
	ends_with 0 "$1"
	[ ! -s "$scratch/$1.err" ] || fail "the export $1 said: $(cat "$scratch/$1.err")"
}

# end_export_that_said NAME PATTERN: it must end well, too; it has said one thing.
end_export_that_said() {
	kill -TERM "$(pid_of "$1")"
	ends_with 0 "$1"
	grep -q "$2" "$scratch/$1.err" || fail "the export $1 did not say $2: $(cat "$scratch/$1.err")"
	[ "$(wc -l <"$scratch/$1.err")" -eq 1 ] || fail "the export $1 said: $(cat "$scratch/$1.err")"
}

# nothing_is_left: of exports that have ended.
nothing_is_left() {
	[ -z "$(ls "$XDG_RUNTIME_DIR")" ] || fail "left: $(ls "$XDG_RUNTIME_DIR"/*)"
}

# is_gone PID: as a process that is no child of ours ends.
is_gone() {
	! kill -0 "$1" 2>/dev/null || has_ended "$1"
}

# nbdkit_of NAME: the process that serves the export.
nbdkit_of() {
	tr -d ' ' <"/proc/$(pid_of "$1")/task/$(pid_of "$1")/children"
}

# io COMMAND…: qemu-io's, on the volume at $nbd. What they print is in io.out.
io() {
	for command; do
		set -- "$@" -c "$command"
		shift
	done
	qemu-io -f raw ${is_read_only:+-r} "$@" "$nbd" >io.out 2>&1 && ! grep -q failed io.out
}

io_fails() {
	if io "$@"; then
		fail "$*: $(cat io.out)"
	fi
}

# request TYPE FLAGS LENGTH: one request of NBD at $nbd, and no flush after it.
request() {
	python3 "$(dirname "$0")/nbd.py" "${nbd#*socket=}" request "$@" || fail "request $*"
}

# stay NAME: a client that does nothing, and leaves only when it is cut off; is_cut_off NAME.
stay() {
	rm -f "$1.stays"
	mkfifo "$1.stays"
	python3 "$(dirname "$0")/nbd.py" "${nbd#*socket=}" stay >"$1.stays" 2>"$1.client.err" &
	eval "pid_$1=$!"
	running="$running $!"
	read -r said <"$1.stays" || fail "a client cannot connect: $(cat "$1.client.err")"
	[ "$said" = connected ] || fail "the client $1: $said"
}

is_cut_off() {
	eventually has_ended "$(pid_of "$1")"
	wait "$(pid_of "$1")" || fail "the client $1: $(cat "$1.client.err")"
	forget "$(pid_of "$1")"
}
