#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Files with layouts of their own: their bytes are where the layout says, and are the same by all ways, over changes, a manager that is killed, and
# in hands that know nothing of layouts.
# shellcheck disable=SC2154 # cluster.sh and mounts.sh set some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"
# shellcheck source=tests/system/mounts.sh
. "$(dirname "$0")/mounts.sh"

start_cluster 512M
port=$(manager_port)
"$AFAR" fs create f --mode 777
"$AFAR" mkdir /f/narrow /f/fine /f/coarse /f/plain

# ---- What layouts there are

"$AFAR" fs set-layout /f/narrow --width 1
"$AFAR" fs set-layout /f/fine --stripe 64K
"$AFAR" fs set-layout /f/coarse --stripe 4M --width 2
refused 2 'say what to set' "$AFAR" fs set-layout /f/fine
refused 2 'say what to set' "$AFAR" fs set-layout /f/fine --default --width 1
refused 2 'power of two' "$AFAR" fs set-layout /f/fine --stripe 100000
refused 1 'from 64 KiB to 1 GiB' "$AFAR" fs set-layout /f/fine --stripe 4K
refused 1 'is on 2 servers' "$AFAR" fs set-layout /f/fine --width 3
"$AFAR" touch /f/plain/empty
refused 1 'no directory' "$AFAR" fs set-layout /f/plain/empty --width 1
refused 1 'there is no' "$AFAR" fs set-layout /f/none --width 1

# has_layout PATH LAYOUT: as `afar stat` shows it; empty: none of its own.
has_layout() {
	got=$("$AFAR" stat "$1" | sed -n 's/^layout *//p')
	[ "$got" = "$2" ] || fail "the layout of $1 is '$got', and not '$2'"
}
"$AFAR" mkdir /f/fine/below
"$AFAR" touch /f/narrow/x /f/fine/below/x
has_layout /f/narrow/x '1 MiB on each of 1 in turn'
has_layout /f/fine/below/x '64 KiB on each of 2 in turn'
has_layout /f/coarse '4 MiB on each of 2 in turn'
has_layout /f/plain/empty ''
"$AFAR" fs set-layout /f/fine/below --default
"$AFAR" touch /f/fine/below/y
has_layout /f/fine/below/y ''
has_layout /f/fine/below/x '64 KiB on each of 2 in turn'
"$AFAR" stat /f/narrow/x --json | grep -q '"width": 1' || fail "stat --json has no layout"

# ---- The same bytes as in a local file, whatever is done to it

cat >twins.py <<'END'
import os, random, sys
seed, nr, *places = sys.argv[1:]
draw = random.Random(int(seed))
LONGEST = 9 << 20
for place in places:
    fds = [os.open(path, os.O_RDWR | os.O_CREAT, 0o666) for path in (place + "/x", "twin-" + os.path.basename(place))]
    for i in range(int(nr)):
        size = os.fstat(fds[1]).st_size
        # Around the ends of stripes.
        at = max(0, draw.randrange(0, LONGEST >> 16) * 65536 + draw.choice((0, -1, 1, -4096, 4095, 30000)))
        data = draw.randbytes(draw.choice((1, 4096, 65536, 65537, 300000, 1 << 21)))
        kind = draw.randrange(10)
        for fd in fds:
            if kind < 5:
                os.pwrite(fd, data, at)
            elif kind < 7 and size < LONGEST:
                os.pwrite(fd, data, size)
            elif kind == 7:
                os.ftruncate(fd, at)
            else:
                got = os.pread(fd, len(data), at)
                if fd == fds[0]:
                    ours = got
                elif ours != got:
                    sys.exit("%s: step %d: a read at %d differs" % (place, i, at))
    for fd in fds:
        os.close(fd)
END
# are_same MOUNT: all twins, through the mount, past it, and without it.
are_same() {
	for name in narrow fine coarse plain; do
		same "$1/$name/x" "twin-$name"
		"$AFAR" run -- cmp "$1/$name/x" "twin-$name" || fail "$name differs past the mount"
		"$AFAR" get "/f/$name/x" got
		same got "twin-$name"
	done
	"$AFAR" fs check f >check.out || fail "fs check: $(cat check.out)"
}
start_mount m f
start_mount direct f --direct
python3 twins.py 1 60 m/narrow m/fine m/coarse m/plain || fail "steps through a mount"
are_same direct
"$AFAR" run -- python3 twins.py 2 60 direct/narrow direct/fine direct/coarse direct/plain || fail "steps past a mount"
are_same m
kill_daemon manager
start_manager "$port"
python3 twins.py 3 30 m/narrow m/fine m/coarse m/plain || fail "steps after a restart of the manager"
are_same direct
has_layout /f/narrow/x '1 MiB on each of 1 in turn'
for name in narrow fine; do
	fallocate -p -o 65000 -l 200000 "m/$name/x"
	fallocate -p -o 65000 -l 200000 "twin-$name"
done
are_same direct
end_mount direct
end_mount m

# ---- Where the bytes are: a server ends, and each file has lost what was there

random_file in 4194304
for i in 1 2 3 4; do
	"$AFAR" put in "/f/narrow/in$i"
done
"$AFAR" put in /f/fine/in
"$AFAR" put in /f/coarse/in
kill_daemon two
start_server two 512M
has_lost() {
	"$AFAR" fs check f --lost --json >lost.json
	grep -q '/f/fine/in' lost.json
}
eventually has_lost
python3 - <<'END' || fail "what was lost: $(cat lost.json)"
import json
lost = {file["path"]: file["lost_bytes"] for file in json.load(open("lost.json"))}
size = 4 << 20
assert lost["/f/fine/in"] == size // 2
assert lost.get("/f/coarse/in", 0) in (0, size)
narrow = [lost.get("/f/narrow/in%d" % i, 0) for i in range(1, 5)]
assert set(narrow) == {0, size}, narrow
END
still_works
