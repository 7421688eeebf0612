#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A device answers each kind of errno to reads. Programs hear of an input/output error, at once: the device's code is never taken for the
# transport's, the manager's, or that of a full namespace.
# shellcheck source=tests/system/cluster.sh disable=SC2154 # cluster.sh sets scratch
. "$(dirname "$0")/cluster.sh"

start_manager
export AFARD="$AFARD_GATED"
AFARD_FAIL_FLUSHES=$scratch/fails
export AFARD_FAIL_FLUSHES
set -- --role server --data "$scratch/one" --name one --data-listen "tcp:$host:0" \
	--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 64M --flash 256M
start_daemon one "$@"
"$AFAR" ns create kept --tier flash
"$AFAR" fs create home --tier flash
random_file in 300000
"$AFAR" region put in kept:a >put.out 2>&1
"$AFAR" put in /home/a >put.out
n=0
# EPERM ENOENT EINTR E2BIG EAGAIN ENOMEM EACCES EBUSY EEXIST EINVAL ENOSPC EROFS EOPNOTSUPP ETIMEDOUT ENOTCONN ECONNRESET ECONNREFUSED ESTALE, and the
# media's: ENODATA EREMOTEIO EILSEQ EIO
for errno in 1 2 4 7 11 12 13 16 17 22 28 30 95 110 107 104 111 116 61 121 84 5; do
	n=$((n + 1))
	echo "$errno" >fails.reads
	"$AFAR" region put in "kept:touch$n" >put.out 2>&1 # so that the device looks
	for target in region file; do
		code=0
		began=$(date +%s)
		case $target in
		region) "$AFAR" region get kept:a back >get.out 2>line || code=$? ;;
		file) "$AFAR" get /home/a back >get.out 2>line || code=$? ;;
		esac
		[ "$code" -eq 1 ] || fail "a $target's get with errno $errno ended with $code"
		[ $(($(date +%s) - began)) -lt $((20 * slowness)) ] || fail "a $target's get with errno $errno took long: $(cat line)"
		grep -Eq 'cannot use its device|Input/output error|checksum|damaged' line || fail "a $target's get with errno $errno said: $(cat line)"
		rm -f back
	done
	echo 0 >fails.reads
	"$AFAR" region put in "kept:well$n" >put.out 2>&1
	"$AFAR" region get kept:a back >get.out 2>&1 || fail "after errno $errno nothing can be read: $(cat get.out)"
	same in back
	rm back
	"$AFAR" region rm "kept:touch$n" "kept:well$n" 2>/dev/null || {
		"$AFAR" region rm "kept:touch$n"
		"$AFAR" region rm "kept:well$n"
	}
done
grep -q ' a read failed: .*; programs are told of an input/output error' one.err || fail "the server's log has no word of it: $(cat one.err)"

# A store whose device cannot be read when it starts is said to be that: neither damaged, nor without a layer.
stop_daemon one
for errno in '5 Input/output error' '22 Invalid argument' '74 Bad message' '110 Connection timed out'; do
	echo "${errno%% *}" >fails.reads
	refused 1 "open the store $scratch/one/server/flash: cannot read the device: ${errno#* }\$" "$AFARD" "$@"
done
echo 0 >fails.reads
start_daemon one "$@"
"$AFAR" region get kept:a back >get.out 2>&1
same in back
