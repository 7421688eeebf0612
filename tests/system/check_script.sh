#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# scripts/check on a project with a test that fails once: it is run again alone, named, and counts as passed. One that
# fails twice fails the run, and one that is skipped says why. So does .ci/run, which goes on after a flaky one.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/cluster.sh"

cat >good.sh <<'END'
#!/bin/sh
exit 0
END
cat >flaky.sh <<'END'
#!/bin/sh
[ -e seen ] || { : >seen && exit 1; }
END
cat >bad.sh <<'END'
#!/bin/sh
exit 1
END
cat >skipped.sh <<'END'
#!/bin/sh
echo 'there is no elephant here'
exit 77
END
chmod +x ./*.sh
cat >meson.build <<'END'
project('trial')
foreach name : get_option('tests')
  test(name, find_program(name + '.sh'), workdir: meson.source_root())
endforeach
END
cat >meson_options.txt <<'END'
option('tests', type: 'array', value: ['good', 'flaky', 'skipped'])
END

# check STATUS: runs the tests; what is said is in ./out.
check() {
	status=0
	"$CHECK" "$PWD/build" >out 2>&1 || status=$?
	[ "$status" -eq "$1" ] || fail "ended with $status, not $1: $(cat out)"
}
# says LINE: it is one of the last lines.
says() {
	tail -n 4 out | grep -qx "$1" || fail "'$1' is not in: $(cat out)"
}

meson setup build >setup.out || fail "$(cat setup.out)"
check 0
says 'flaky: flaky'
says 'skipped: skipped: there is no elephant here'
[ "$(tail -n 1 out)" = '2 passed, 0 failed, 1 skipped' ] || fail "$(cat out)"
check 0
! grep flaky: out || fail 'a test that did not fail is called flaky'

meson configure build -Dtests=good,bad
check 1
! grep flaky: out || fail 'a test that fails twice is called flaky'
[ "$(tail -n 1 out)" = '1 passed, 1 failed, 0 skipped' ] || fail "$(cat out)"

# .ci/run with a make that says what scripts/check says.
mkdir bin
cat >bin/make <<'END'
#!/bin/sh
echo "$1" >>targets
case $1 in
check) cat checked && grep -q ' 0 failed' checked ;;
check-*) echo '1 passed, 0 failed, 0 skipped' ;;
esac
END
chmod +x bin/make
mkdir .ci
cp "$CI" .ci/ # which works in the folder that it is in

# ci STATUS LAST: what it ends with, and its last line.
ci() {
	rm -f targets
	status=0
	PATH=$PWD/bin:$PATH "$PWD/.ci/run" >out 2>&1 || status=$?
	[ "$status" -eq "$1" ] || fail "CI ended with $status, not $1: $(cat out)"
	[ "$(tail -n 1 out)" = "$2" ] || fail "CI ended with another line: $(cat out)"
	[ "$(tr '\n' ' ' <targets)" = 'check lint check-asan check-tsan check-verbs ' ] || fail "$(cat targets)"
}
printf 'flaky: sometimes\n3 passed, 0 failed, 1 skipped\n' >checked
ci 0 '7 passed, 0 failed, 1 skipped'
says 'flaky: sometimes, in make check'
printf '3 passed, 1 failed, 1 skipped\n' >checked
ci 1 '7 passed, 1 failed, 1 skipped'
