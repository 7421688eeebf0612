#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Devices that hold something of others', wherever its signature is, are not made flash layers, and it is named.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

PATH=$PATH:/sbin:/usr/sbin

# refuses NAME WORDS: `flash create` says what NAME holds, and leaves it alone; forced, nothing of it is left to be found.
refuses() {
	cp "$1" before
	refused 1 "holds $2; --force overwrites it" "$AFAR" flash create "$1"
	same "$1" before
	"$AFAR" flash create "$1" --force >/dev/null
	refused 1 'one already' "$AFAR" flash create "$1"
	# Without what says that it is ours, at one end and the other, there would still be nothing else.
	dd if=/dev/zero of="$1" bs=4096 count=1 conv=notrunc 2>/dev/null
	refused 1 'one already' "$AFAR" flash create "$1"
	dd if=/dev/zero of="$1" bs=4096 seek=$(($(stat -c %s "$1") / 4096 - 1)) count=1 conv=notrunc 2>/dev/null
	"$AFAR" flash create "$1" >/dev/null
	"$AFAR" flash check "$1" >/dev/null
}

# make NAME: with the bytes that a script on standard input puts into `at`, a dictionary of offsets.
make() {
	truncate -s 64M "$1"
	python3 -c '
import struct, sys, zlib
size, at = 64 << 20, {}
def crc32(data, polynomial, crc):
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (polynomial if crc & 1 else 0)
    return crc
exec(sys.stdin.read())
with open(sys.argv[1], "r+b") as image:
    for offset, data in at.items():
        image.seek(offset)
        image.write(data)' "$1"
}

# At 64 KiB, with zeros before.
make btrfs <<'END'
sector = bytearray(4096)
sector[64:72] = b"_BHRfS_M"
sector[32:48] = bytes(range(1, 17))
sector[48:56] = struct.pack("<Q", 65536)
sector[144:148] = struct.pack("<I", 4096)
sector[299:305] = b"pears\0"
sector[:4] = struct.pack("<I", crc32(sector[32:], 0x82f63b78, 0xffffffff) ^ 0xffffffff)
at[65536] = bytes(sector)
END
cp btrfs two
refuses btrfs 'a btrfs file system named "pears"'

# A table of partitions of which the copy at the end is left alone.
make gpt <<'END'
last = size // 512 - 1
entries = bytearray(128 * 128)
entries[0:56] = bytes(range(1, 33)) + struct.pack("<QQQ", 2048, 4095, 0)
header = bytearray(struct.pack("<8sIIIIQQQQ16sQIII", b"EFI PART", 0x10000, 92, 0, 0, last, 1, 34, last - 33,
                               bytes(range(16)), last - 32, 128, 128, zlib.crc32(entries)))
header[16:20] = struct.pack("<I", zlib.crc32(header))
at[(last - 32) * 512] = bytes(entries)
at[last * 512] = bytes(header)
END
refuses gpt 'a partition table [(]gpt[)]'

# A member of an array, whose superblock is at the end, and one of a volume group, whose label is in the second sector.
make array <<'END'
offset = (size - 8192) & ~4095
array = bytearray(256)
array[0:16] = struct.pack("<IIII", 0xa92b4efc, 1, 0, 0)
array[16:32] = bytes(range(16))
array[32:40] = b"apples:0"
array[128:136] = struct.pack("<Q", 0)
array[144:152] = struct.pack("<Q", offset // 512)
# libblkid 2.39 and later verifies the sum.
total = sum(struct.unpack("<64I", array))
array[216:220] = struct.pack("<I", (total + (total >> 32)) & 0xffffffff)
at[offset] = bytes(array)
END
refuses array 'a part of an array or volume group [(]linux_raid_member[)].*'

make group <<'END'
label = bytearray(512)
label[0:32] = struct.pack("<8sQII8s", b"LABELONE", 1, 0, 32, b"LVM2 001")
label[32:64] = b"abcdefghijklmnopqrstuvwxyz012345"
label[16:20] = struct.pack("<I", crc32(label[20:], 0xedb88320, 0xf597a6cf))
at[512] = bytes(label)
END
refuses group 'a part of an array or volume group [(]LVM2_member[)]'

if command -v mkfs.ext4 >/dev/null; then
	truncate -s 64M ext4
	mkfs.ext4 -q -F -L "$(printf 'red\033plums')" ext4
	refuses ext4 'an ext4 file system named "red.plums"'
fi

# Two at a time: which of them counts cannot be said.
make two <<'END'
page = bytearray(4096)
page[1024:1032] = struct.pack("<II", 1, 4095)
page[1036:1052] = bytes(range(16))
page[4086:4096] = b"SWAPSPACE2"
at[0] = bytes(page)
END
refuses two 'more than one thing.*'

if command -v mkswap >/dev/null; then
	truncate -s 64M swap
	mkswap swap >/dev/null 2>&1
	refuses swap 'a swap area'
fi
