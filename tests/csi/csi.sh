#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The plugin of the Container Storage Interface, asked by a client of gRPC: volumes are staged and published, all of it again, badly, and after
# a plugin or a mount was killed.
# shellcheck disable=SC2154 # cluster.sh and mounts.sh set some
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/../system/cluster.sh"
# shellcheck source=tests/system/mounts.sh
. "$(dirname "$0")/../system/mounts.sh"
here=$(cd "$(dirname "$0")" && pwd)

[ "$(id -u)" -eq 0 ] || skip 'only root mounts for containers'
/usr/bin/python3 -c 'import grpc, google.protobuf' 2>/dev/null || skip 'no gRPC for Python: apt install python3-grpcio python3-protobuf'

PYTHONPATH=${CSI:?the folder of the plugin}
PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH PYTHONDONTWRITEBYTECODE

# What the plugin runs as afar: it waits while somebody holds ./hold, a pipe, and says what is in ./say instead.
cat >held <<END
#!/bin/sh
if [ -p '$scratch/hold' ]; then
	read -r _ <'$scratch/hold'
fi
if [ -e '$scratch/say' ]; then
	exec cat '$scratch/say'
fi
exec '$AFAR' "\$@"
END
chmod +x held

start_cluster
"$AFAR" fs create home
echo content | "$AFAR" put - /home/file
"$AFAR" mkdir /home/folder

AFAR=$scratch/held timeout -s ABRT 200 /usr/bin/python3 -X faulthandler "$here/client.py" "$CSI/afar-csi" "$scratch" >client 2>&1 || {
	cat client plugin.err >&2
	fail 'the client'
}
tail -n 4 client
still_works
