#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154 # exports.sh sets nbd, cluster.sh slowness
# An emulated machine boots from an exported volume on flash, writes a file there, and powers itself off. The server
# is killed while it boots. Uses the kernel that scripts/check-verbs has fetched.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/exports.sh
. "$(dirname "$0")/exports.sh"
PATH=$PATH:/usr/sbin:/sbin
requires qemu-system-x86_64 qemu-system-x86
requires busybox busybox-static
requires cpio cpio
requires mkfs.ext4 e2fsprogs
guest=${GUEST:?the folder of the kernel}
grep -qs virtio_blk "$guest/wanted" || {
	echo "no kernel for a guest was fetched: scripts/check-verbs does that"
	exit 77
}

# ---- What it boots: modules, then the volume's own init

mkdir -p first/bin first/root first/dev volume/bin volume/sbin volume/proc volume/dev
cp "$(command -v busybox)" first/bin/busybox
cp first/bin/busybox volume/bin/
cat >first/init <<'END'
#!/bin/busybox sh
/bin/busybox mount -t devtmpfs devtmpfs /dev
for module in /modules/*.ko; do
	/bin/busybox insmod "$module"
done
/bin/busybox mount -t ext4 /dev/vda /root || /bin/busybox poweroff -f
exec /bin/busybox switch_root /root /sbin/init
END
cat >volume/sbin/init <<'END'
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
echo "guest: booted from $(/bin/busybox awk '$2 == "/" { print $1, $3 }' /proc/mounts)"
echo "written by the guest" >/stamp
/bin/busybox sync
echo "guest: synced"
/bin/busybox poweroff -f
END
chmod +x first/init volume/sbin/init
{
	cat "$guest/modules.cpio"
	(cd first && find . | cpio -o -H newc --quiet)
} >image
mkfs.ext4 -q -d volume disk.img 48M

# ---- The volume

start_manager
start_store one
"$AFAR" volume create v 48M --tier flash
start_export v v

nbdcopy --flush disk.img "$nbd"

timeout $((120 * slowness)) setpriv --pdeathsig KILL qemu-system-x86_64 -accel tcg -M q35 -cpu max -m 512 -nodefaults -display none \
	-serial stdio -no-reboot -kernel "$guest/vmlinuz" -initrd image -append "console=ttyS0 panic=-1 quiet" \
	-drive "file=$nbd,format=raw,if=virtio,cache=none" </dev/null >guest.out 2>&1 &
machine=$!
running="$running $machine"
kill_daemon one
start_store one
wait "$machine" || fail "the machine ended with $?: $(cat guest.out)"
forget "$machine"
grep -q 'guest: booted from /dev/.* ext4' guest.out || fail "it did not boot from the volume: $(cat guest.out)"
grep -q 'guest: synced' guest.out || fail "it did not write: $(cat guest.out)"

# ---- What it wrote is there, and the file system is whole

nbdcopy "$nbd" back.img
end_export v
e2fsck -p back.img >fsck.out 2>&1 || [ $? -eq 1 ] || fail "fsck: $(cat fsck.out)" # it has a journal to replay
e2fsck -fn back.img >fsck.out 2>&1 || fail "fsck: $(cat fsck.out)"
debugfs -R 'cat /stamp' back.img 2>/dev/null | grep -q 'written by the guest' || fail "the guest's file is not there"
nothing_is_left
