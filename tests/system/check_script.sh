#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# scripts/check on a project with a test that fails once: it is run again alone, named, and counts as passed. One that
# fails twice fails the run, and one that is skipped says why. So does .ci/run, which goes on after a flaky one. What is
# left out is what the nightly checks have seen pass, and has not changed.
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
  test(name, find_program(name + '.sh'), workdir: meson.source_root(), suite: 'of_' + name)
endforeach
END
cat >meson_options.txt <<'END'
option('tests', type: 'array', value: ['good', 'flaky', 'skipped'])
END

# check STATUS [SUITE…]: runs the tests; what is said is in ./out.
check() {
	want=$1
	shift
	status=0
	"$CHECK" "$PWD/build" "$@" >out 2>&1 || status=$?
	[ "$status" -eq "$want" ] || fail "ended with $status, not $want: $(cat out)"
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
check 0 +of_good
[ "$(tail -n 1 out)" = '1 passed, 0 failed, 0 skipped' ] || fail "$(cat out)"
check 0 ^of_bad
[ "$(tail -n 1 out)" = '1 passed, 0 failed, 0 skipped' ] || fail "$(cat out)"

command -v git >/dev/null || {
	echo "the rest is about commits, and git is not there (apt install git)"
	exit 0
}
# .ci/run with a make that says what scripts/check says.
mkdir bin
cat >bin/make <<'END'
#!/bin/sh
echo "$*" >>targets
case $1 in
check) cat checked && grep -q ' 0 failed' checked ;;
check-*) echo '1 passed, 0 failed, 0 skipped' ;;
esac
END
chmod +x bin/make
mkdir -p .ci scripts src/fabric src/apps
cp "$CI" .ci/ # which works in the folder that it is in
cp "$(dirname "$CHECK")/changed" scripts/
: >src/fabric/lane.c
echo '#include "apps/own.h"' >src/apps/own.c
: >src/apps/own.h
git init -q .
printf '*\n!.ci\n!.ci/nightly\n!.ci/run\n!scripts/\n!scripts/**\n!src/\n!src/**\n' >.git/info/exclude
commit() {
	git add . && git -c user.name=t -c user.email=t@t commit -q --allow-empty -m "$1"
}
commit first

# ci STATUS LAST TARGETS [ARGUMENT]: what it ends with, its last line, and what it had make do.
ci() {
	rm -f targets
	status=0
	PATH=$PWD/bin:$PATH "$PWD/.ci/run" ${4:+"$4"} >out 2>&1 || status=$?
	[ "$status" -eq "$1" ] || fail "CI ended with $status, not $1: $(cat out)"
	[ "$(tail -n 1 out)" = "$2" ] || fail "CI ended with another line: $(cat out)"
	[ "$(sed 's/^\([^ ]*\).*/\1/' targets | tr '\n' ' ')" = "$3 " ] || fail "make was asked for: $(cat targets)"
}
printf '3 passed, 1 failed, 1 skipped\n' >checked
ci 1 '7 passed, 1 failed, 1 skipped' 'check lint check-asan check-tsan check-verbs' --nightly
[ ! -e .ci/nightly ] || fail 'nightly checks that failed are said to have passed'
printf 'flaky: sometimes\n3 passed, 0 failed, 1 skipped\n' >checked
# Nothing has been seen to pass, so nothing is left out.
ci 0 '7 passed, 0 failed, 1 skipped' 'check lint check-asan check-tsan check-verbs'
says 'flaky: sometimes, in make check'
ci 0 '7 passed, 0 failed, 1 skipped' 'check lint check-asan check-tsan check-verbs' --nightly
grep -q "^$(git rev-parse HEAD) 20..-..-.. [0-9]*$" .ci/nightly || fail ".ci/nightly has: $(cat .ci/nightly)"
commit second
ci 0 '6 passed, 0 failed, 1 skipped' 'check lint check-asan check-tsan'
grep -q "last passed on 20..-..-.., of commit $(git rev-parse HEAD~ | cut -c 1-12)" out || fail "it says: $(cat out)"
grep -q "^$(git rev-parse HEAD) [0-9]*$" .ci/last || fail ".ci/last has: $(cat .ci/last)"
[ "$(scripts/changed)" = .ci/nightly ] || fail "changed: $(scripts/changed)"
echo >>src/fabric/lane.c
ci 0 '7 passed, 0 failed, 1 skipped' 'check lint check-asan check-tsan check-verbs'
grep -q "^$(git rev-parse HEAD) " .ci/last || fail 'a checkout that differs from its commit is said to have passed'
echo >>src/apps/own.h
scripts/changed --including | grep -qx src/apps/own.c || fail "changed: $(scripts/changed --including)"
! scripts/changed | grep -x src/apps/own.c || fail 'what includes a change is said to have changed'
