#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154 # cluster.sh sets some
# Three machines become a cluster by `afar init` and `afar join`: here each is a folder with an address of its own. Both
# say what they do, do it once, keep what is there, and let nobody read a key. The daemons tell a service manager how far they are.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

address=$host:7411 # nobody else has this host

# configured MACHINE ROLE: what init or join has said starts its daemon.
configured() {
	grep -q " --config $scratch/$1/etc/afar/$2.ini\$" said || fail "not said how to start $2 of $1: $(cat said)"
	start_daemon "$1_$2" --config "$scratch/$1/etc/afar/$2.ini" --lease-ms 1500 --metrics "$host:0"
}

# ---- The first machine

"$AFAR" init "$host" --root m1 --name m1 --memory 64M --dry-run >said
[ ! -e m1 ] || fail "a dry run wrote something"
grep -q "listen = $address" said || fail "a dry run shows no settings: $(cat said)"
! grep -Eq '[0-9a-f]{64}' said || fail "a dry run shows a key"

refused 2 'is not HOST' "$AFAR" init 'two words' --root m1
refused 2 'is not HOST' "$AFAR" init ::1 --root m1
refused 2 'is not HOST' "$AFAR" init "$host:0" --root m1
refused 2 'is not HOST' "$AFAR" init "$host:65536" --root m1
refused 2 '--memory' "$AFAR" init "$host" --root m1 --memory none
refused 2 'neither the path' "$AFAR" init "$host" --root m1 --flash nvme0n1
refused 2 'neither the path' "$AFAR" init "$host" --root m1 --flash '/dev/a ; b'
refused 2 '--name' "$AFAR" init "$host" --root m1 --name "$(printf 'a\nb')"
refused 2 '--no-server' "$AFAR" init "$host" --root m1 --no-server --memory 1G
refused 2 '^afar: init: --memory, --flash' "$AFAR" init "$host" --root m1 --no-server --flash 1G
refused 2 'no --cluster' "$AFAR" --cluster "afar://$host" init "$host" --root m1
refused 2 'at most 60 bytes' "$AFAR" init "$host" --root "$(printf 'x%.0s' $(seq 70))"
[ ! -e m1 ] || fail "a refusal wrote something"

"$AFAR" init "$host" --root m1 --name m1 --memory 64M >said
others=$(find m1 -type f -perm /077 ! -name '*.ini' ! -name cluster)
[ -z "$others" ] || fail "others can read $others"
[ "$(find m1/var/lib/afar -perm /077)" = "" ] || fail "others can reach $(find m1/var/lib/afar -perm /077)"

# Given again it keeps the keys; with other words it says what is there.
cp m1/etc/afar/key key.before
"$AFAR" init "$host" --root m1 --name m1 --memory 64M >said
same m1/etc/afar/key key.before
! grep -q '^wrote' said || fail "given again it writes: $(cat said)"
refused 1 'server.ini is there' "$AFAR" init "$host" --root m1 --name m1 --memory 128M
# One that was cut short is finished.
rm m1/etc/afar/cluster m1/etc/afar/server.ini
"$AFAR" init "$host" --root m1 --name m1 --memory 64M >said
same m1/etc/afar/key key.before
[ "$(cat m1/etc/afar/cluster)" = "afar://$address" ] || fail "the cluster's file: $(cat m1/etc/afar/cluster)"

refused 1 'another cluster than afar://127.0.0.1:7411, says' "$AFAR" init 127.0.0.1 --root m1 --name m1 --memory 64M
refused 1 'no manager answers at' "$AFAR" join "$host" m1/var/lib/afar/manager/server.key --root m2
configured m1 manager
configured m1 server
AFAR_CLUSTER=$(cat m1/etc/afar/cluster) AFAR_KEY=$scratch/m1/etc/afar/key
export AFAR_CLUSTER AFAR_KEY

# ---- The others

refused 1 'there is no key' "$AFAR" join "$host" /dev/null --root m2
{ cat key.before && echo 'and more'; } >two_lines
refused 1 'line 2 .*is not NAME:KEY' "$AFAR" join "$host" two_lines --root m2
refused 1 'No such file' "$AFAR" join "$host" nothing --root m2
refused 1 'larger than a key file' "$AFAR" join "$host" /dev/zero --root m2
refused 2 'is not HOST' "$AFAR" join "[$host" key.before --root m2
refused 2 'no --cluster' "$AFAR" --key key.before join "$host" key.before --root m2
echo "m2:$(printf '%064d' 0)" >stranger
refused 1 "does not accept the key 'm2'" "$AFAR" join "$host" stranger --root m2
printf 'm\033[2:%064d\n' 0 >control
refused 1 'line 1 .*is not NAME:KEY' "$AFAR" join "$host" control --root m2
refused 1 "'admin' is a client's key" "$AFAR" join "$host" key.before --root m2
refused 1 'join: .*nobody.invalid' "$AFAR" join nobody.invalid stranger --root m2
[ ! -e m2 ] || fail "a refusal wrote something"
for machine in m2 m3; do
	"$AFAR" key add --server "$machine" | "$AFAR" join "$address" - --root "$machine" --name "$machine" --memory 64M >said
	[ "$(stat -c %a "$machine/var/lib/afar/server/server.key")" = 600 ] || fail "others can read the key of $machine"
	configured "$machine" server
done
"$AFAR" join "$address" m2/var/lib/afar/server/server.key --root m2 --name m2 --memory 64M >said
! grep -q '^wrote' said || fail "given again it writes: $(cat said)"
refused 1 'another cluster than .*, says' "$AFAR" init 127.0.0.1 --root m2 --name m2 --memory 64M
refused 1 'server.ini is there' "$AFAR" init "$host" --root m2 --name m2 --memory 64M
[ ! -e m2/var/lib/afar/manager ] || fail "a refusal made a manager"
refused 1 'has another key' "$AFAR" join "$address" m3/var/lib/afar/server/server.key --root m2 --name m2 --memory 64M

"$AFAR" status | grep -c '^m[123] .* up ' | grep -qx 3 || fail "not three servers: $("$AFAR" status)"
"$AFAR" ns create wide --width 3
random_file in 5000000
"$AFAR" region put in wide:a >/dev/null
"$AFAR" region get wide:a out >/dev/null
same in out

# ---- The machine's cluster

# Without a word the cluster is that of /etc/afar, which is laid over this machine's where users may do so.
if unshare -rm mount -t tmpfs none /etc 2>/dev/null; then
	(
		unset AFAR_CLUSTER AFAR_KEY
		# shellcheck disable=SC2016 # the inner shell expands it
		unshare -rm sh -c 'mount -t tmpfs none /etc && mkdir /etc/afar && cp "$1/cluster" "$1/key" /etc/afar/ && exec "$2" ns ls' \
			sh "$scratch/m1/etc/afar" "$AFAR" | grep -q '^wide ' || fail "/etc/afar/cluster is not taken"
		# shellcheck disable=SC2016 # likewise
		refused 1 '/etc/afar/cluster: .*does not begin with afar://' unshare -rm sh -c \
			'mount -t tmpfs none /etc && mkdir /etc/afar && echo nonsense >/etc/afar/cluster && exec "$1" ns ls' sh "$AFAR"
		# shellcheck disable=SC2016 # likewise
		refused 1 '192.0.2.1 is not an address of this machine' unshare -rm sh -c \
			'mount -t tmpfs none /etc && mount -t tmpfs none /var/lib && exec "$1" init 192.0.2.1' sh "$AFAR"
		# shellcheck disable=SC2016 # likewise
		refused 1 '0.0.0.0 is not an address of this machine' unshare -rm sh -c \
			'mount -t tmpfs none /etc && mount -t tmpfs none /var/lib && exec "$1" init 0.0.0.0' sh "$AFAR"
	)
fi

# ---- A service manager

stop_daemon m3_server
python3 -B - "$AFARD" "$scratch/m3/etc/afar/server.ini" <<'END' || fail "the service manager is not told"
import os, signal, socket, subprocess, sys

for name in (os.path.abspath("notify"), "\0afar-test-%d" % os.getpid()):
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.bind(name)
    told.settimeout(60 * int(os.environ.get("AFAR_SLOWNESS", "1")))
    environment = dict(os.environ, NOTIFY_SOCKET=name.replace("\0", "@"))
    daemon = subprocess.Popen([sys.argv[1], "--config", sys.argv[2]], env=environment, stdout=subprocess.DEVNULL)
    heard = ""
    try:
        while "READY=1" not in heard:
            heard = told.recv(4096).decode()
        daemon.send_signal(signal.SIGTERM)
        while "STOPPING=1" not in heard:
            heard = told.recv(4096).decode()
        assert daemon.wait() == 0
    finally:
        daemon.kill()
END
NOTIFY_SOCKET=$scratch/nobody start_daemon m3_server --config "$scratch/m3/etc/afar/server.ini"
grep -q 'NOTIFY_SOCKET' m3_server.err || fail "nobody hears that the service manager cannot be told"
still_works
