#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154 # cluster.sh sets some, and eval
# Five commands make a cluster with a mounted file system of three machines: here each is a network namespace with an /etc
# and a /var/lib of its own. No command is told an address but that of the first machine.
if [ -z "${APART:-}" ]; then
	if ! unshare -rnm sh -c 'ip link add bridge type bridge && ip link add one type veth peer name two' 2>/dev/null; then
		echo "skipped: network namespaces or their bridges cannot be made here"
		exit 77
	fi
	APART=yes exec unshare -rnm sh "$0"
fi
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

# ---- The machines

mount -t tmpfs none /run
mkdir /run/netns
ip link add bridge type bridge
ip link set bridge up

# Runs a command on the machine in whose folder it lies.
cat >on <<END
#!/bin/sh
folder=\$(dirname "\$0")
exec nsenter --net="/run/netns/\$(basename "\$folder")" unshare -m "\$folder/enter" "\$@"
END
cat >enter <<'END'
#!/bin/sh
folder=$(dirname "$0")
export XDG_RUNTIME_DIR="$folder"
mount -t tmpfs none /etc
mount -t tmpfs none /var/lib
mkdir /etc/afar /var/lib/afar
mount --bind "$folder/etc" /etc/afar
mount --bind "$folder/lib" /var/lib/afar
exec "$@"
END
chmod +x on enter
for number in 1 2 3; do
	ip netns add "m$number"
	ip link add "to$number" type veth peer name eth0 netns "m$number"
	ip link set "to$number" master bridge up
	ip -n "m$number" link set lo up
	ip -n "m$number" link set eth0 up
	ip -n "m$number" address add "10.7.0.$number/24" dev eth0
	ip -n "m$number" route add default via 10.7.0.254
	mkdir -m 700 "m$number"
	mkdir "m$number/etc" "m$number/lib"
	cp on enter "m$number/"
	eval "m$number=\$scratch/m$number/on"
done
daemon=$AFARD

# started MACHINE ROLE: as the machine's command has said.
started() {
	grep -q "/afard --config /etc/afar/$2.ini\$" said || fail "not said how to start $2: $(cat said)"
	cat >"$1/afard" <<-END
		#!/bin/sh
		exec "$scratch/$1/on" "$daemon" "\$@"
	END
	chmod +x "$1/afard"
	AFARD=$scratch/$1/afard
	start_daemon "$1_$2" --config "/etc/afar/$2.ini"
}

# ---- The commands

"$m1" "$AFAR" init --name m1 --memory 64M >said
[ "$(cat m1/etc/cluster)" = afar://10.7.0.1:7411 ] || fail "the first machine's address: $(cat m1/etc/cluster)"
started m1 manager
started m1 server
"$m1" "$AFAR" key add --server m2 | "$m2" "$AFAR" join 10.7.0.1 - --name m2 --memory 64M >said
started m2 server
"$m1" "$AFAR" key add --server m3 | "$m3" "$AFAR" join 10.7.0.1 - --name m3 --memory 64M >said
started m3 server
"$m1" "$AFAR" fs create home
random_file in 3000000
if [ -w /dev/fuse ] && [ -x "$(dirname "$AFAR")/../frontends/fuse/afar-mount" ]; then
	# shellcheck disable=SC2016 # the inner shell expands it
	"$m1" sh -euc 'mkdir mnt && "$1" mount home mnt && cp in mnt/ && "$1" umount mnt' sh "$AFAR"
else
	"$m1" "$AFAR" put in /home/in
fi
"$m1" "$AFAR" cat /home/in >out
same in out
"$m1" "$AFAR" status >status
[ "$(grep -Ec '^m[123] +up ' status)" = 3 ] || fail "not three servers: $(cat status)"
[ "$(grep -Eo 'tcp 10\.7\.0\.[123]:' status | sort -u | wc -l)" = 3 ] || fail "not at three addresses: $(cat status)"
