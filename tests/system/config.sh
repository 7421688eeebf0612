#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The configuration file: what it says is done, flags win over it, and its faults are named by line.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

# faulty LINE PATTERN: the text on standard input is refused at that line.
faulty() {
	cat >faulty.ini
	refused 2 "^afard: faulty.ini:$1: .*$2" "$AFARD" --config faulty.ini
}

faulty 2 "unknown key 'colour'" <<'END'
[afard]
colour = red
END
faulty 4 'unknown section' <<'END'
[afard]
role = all
[afar]
role = all
END
faulty 4 'no role' <<'END'
# a comment

[afard]
role = king
END
faulty 2 'not a size' <<'END'
[server]
memory = lots
END
faulty 2 'not fit 64 bits' <<'END'
[server]
memory = 20E
END
faulty 2 'put it below \[server\]' <<'END'
[manager]
memory = 64M
END
faulty 1 'in no section' <<'END'
role = all
END
faulty 2 'neither' <<'END'
[afard]
nonsense
END
faulty 2 'neither' <<'END'
[afard]
[server
END
faulty 2 'is empty' <<'END'
[afard]
key =
END
faulty 2 'too long' <<END
[afard]
data = $(printf '%0500d' 0)
END
refused 2 'missing.ini' "$AFARD" --config missing.ini
mkdir folder.ini
refused 2 'folder.ini' "$AFARD" --config folder.ini
head -c 5000 /dev/zero >zero.ini
refused 2 'zero.ini:1:' "$AFARD" --config zero.ini
[ ! -e afar-data ] || fail "a refused afard made its folder"

cat >good.ini <<'END'
[afard]
role = all
data = from-file    ; where it keeps things
[manager]
listen = 127.0.0.1:0
[server]
name = configured
memory = 32M
END
start_daemon all --config good.ini --data from-flag
[ -d from-flag ] || fail "the flag did not win"
[ ! -e from-file ] || fail "the file won"
AFAR_CLUSTER=$(cat from-flag/cluster) "$AFAR" status | grep -Eq '^configured +up +32 MiB ' || fail "the file's settings"
stop_daemon all
