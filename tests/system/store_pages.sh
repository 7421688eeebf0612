#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A store that keeps pages: many processes that want one page read the device once; then it is read from memory. What changes
# is read as it is now. What is counted is what the kernel has counted.
# shellcheck source=tests/system/cluster.sh disable=SC2154 # cluster.sh sets scratch
. "$(dirname "$0")/cluster.sh"

start_manager
export AFARD="$AFARD_GATED"
AFARD_FAIL_FLUSHES=$scratch/device
export AFARD_FAIL_FLUSHES
start_store() {
	start_daemon one --role server --data "$scratch/one" --name one --data-listen "tcp:$host:0" --scrub 0 \
		--key "$scratch/manager/server.key" --manager "$AFAR_CLUSTER" --memory 64M --flash 192M "$@"
}
start_store --cache 8M

# count NAME: what the store says of itself.
count() {
	"$AFAR" store ls --json | sed -n "s/.*\"$1\": \([0-9.]*\).*/\1/p"
}

# is_counted NAME NUMBER: it tells that much now.
is_counted() {
	[ "$(count "$1")" -eq "$2" ]
}

[ "$(count cache_bytes)" -eq $((8 << 20)) ] || fail "cache: $("$AFAR" store ls --json)"
"$AFAR" ns create kept --tier flash
"$AFAR" ns reserve kept 64M >/dev/null
random_file page 4096
"$AFAR" region put page kept:page >put.out

# kernels NAME: what the kernel says of the server; 0 if it does not tell.
kernels() {
	sed -n "s/^$1: //p" "/proc/$(pid_of one)/io" 2>/dev/null || echo 0
}

# ---- One read for all

readers=32 kernels_reads=$(kernels read_bytes)
reads=$(count device_reads)
misses=$(count cache_misses)
touch device.held
for i in $(seq $readers); do
	"$AFAR" region get kept:page "back.$i" >"get.$i" 2>&1 &
	eval "reader_$i=$!"
	running="$running $!"
done
all_wait() {
	[ $(($(count cache_misses) + $(count cache_shared))) -eq $((misses + readers)) ]
}
eventually all_wait
rm device.held
for i in $(seq $readers); do
	eval "reader=\$reader_$i"
	wait "$reader" || fail "reader $i: $(cat "get.$i")"
	forget "$reader"
	same page "back.$i"
done
eventually is_counted cache_shared $((readers - 1))
[ $(($(count device_reads) - reads)) -le $((readers / 10)) ] ||
	fail "$readers readers of a page read the device $(($(count device_reads) - reads)) times"
kernels_reads=$(($(kernels read_bytes) - kernels_reads))
[ "$kernels_reads" -le $((readers / 10 * 4096)) ] || fail "$readers readers of a page read $kernels_reads bytes, says the kernel"

# ---- From memory

hits=$(count cache_hits) reads=$(count device_reads)
for i in 1 2 3 4 5; do
	"$AFAR" region get kept:page back >get.out
	same page back
done
eventually is_counted cache_hits $((hits + 5))
is_counted device_reads "$reads" || fail "pages that are kept were read again"
"$AFAR" store ls | sed -n 2p | grep -q ' [0-9]* % ' || fail "hits are not shown: $("$AFAR" store ls)"

# ---- Changes

for i in 1 2 3; do
	random_file page 4096
	"$AFAR" region put page kept:page --replace >put.out
	"$AFAR" region get kept:page back >get.out
	same page back
	"$AFAR" region get kept:page back >get.out
	same page back
done
# Another region has the room that this one had; and it begins as zeros.
"$AFAR" region rm kept:page
head -c 4096 /dev/zero >zeros
for i in 1 2 3; do
	random_file page 65536
	"$AFAR" region put page kept:a >put.out
	"$AFAR" region get kept:a back >get.out
	same page back
	"$AFAR" region rm kept:a
	"$AFAR" region put zeros kept:a >put.out
	"$AFAR" region get kept:a back >get.out
	same zeros back
	"$AFAR" region rm kept:a
done

# ---- What is counted

# near ONE OTHER: they differ by less than 2 %.
near() {
	[ $((($1 - $2) * 50)) -lt "$2" ] && [ $((($2 - $1) * 50)) -lt "$2" ]
}
if [ "$(kernels write_bytes)" -gt 0 ]; then
	random_file bulk 16000000
	before=$(count written_blocks) kernels_before=$(kernels write_bytes)
	for i in 1 2 3 4; do
		"$AFAR" region put bulk kept:bulk --replace >put.out
	done
	agree() {
		ours=$((($(count written_blocks) - before) * 4096)) theirs=$(($(kernels write_bytes) - kernels_before))
		echo "ours $ours, the kernel's $theirs"
		near "$ours" "$theirs"
	}
	eventually agree
fi
case $(count write_amplification) in
[1-9].*) ;;
*) fail "write amplification: $(count write_amplification)" ;;
esac
"$AFAR" top --interval 0.2 --count 1 >top.out
grep -q '^STORE .*HITS/s.*AMPL' top.out || fail "top: $(cat top.out)"

# ---- Again after a crash, and without

random_file page 40000
"$AFAR" region put page kept:page >put.out
"$AFAR" region get kept:page back >get.out
kill_daemon one
start_store --cache 2M
eventually "$AFAR" region get kept:page back
same page back
stop_daemon one
start_store
eventually "$AFAR" region get kept:page back
same page back
[ "$(count cache_bytes)" -eq 0 ] || fail "it keeps pages that nobody wants kept"
stop_daemon one
refused 1 "a cache of 64 MiB leaves nothing to lend of 64 MiB; give --cache less, or --memory more" \
	"$AFARD" --role server --data one --name one --key manager/server.key --manager "$AFAR_CLUSTER" --memory 64M --cache 64M
refused 1 "a cache of 1 MiB for 1 stores is less than 2 MiB for each" \
	"$AFARD" --role server --data one --name one --key manager/server.key --manager "$AFAR_CLUSTER" --memory 64M --cache 1M
