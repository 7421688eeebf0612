#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# prose.sh CHECK-PROSE: the script names hard sentences in comments and in pages, each with its line and why, and nothing else there.
set -eu
check_prose=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
long='One two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty 21 22 23 24'

cat >"$folder/a.c" <<END
// SPDX-License-Identifier: BSD-3-Clause
/*
 * Plain. What a caller gives
 * is lost. That is why.
 * Errors: -ENOENT: $long.
 *
 * Returns 0, or -ENOENT, -EINVAL, -EIO: $long.
 * table.c   $long
 */
/* Is it short? */ /* Who knows whose it is? */ int a; /* Whether a is set. */
// A comment of $long,
// and one more. $long 25 26.
char *b = "/* Who is it. */";
/*
 * void example(void)
 * {
 *	What(is, code);
 * }
 */
END
cat >"$folder/b.md" <<END
# What a heading says is short

The same holds here, e.g. That. \`What code says is one word of many\`: $long 25.

| Of what a heading says | x |
|---|---|
| As a cell says. | $long 25 26 |

\`\`\`
What code says.
\`\`\`
- Whoever asks gets it.
- \`a\`, \`b\`, \`c\`, \`d\`, \`e\`, \`f\`, \`g\`, \`h\`, \`i\` and $long.
END
cat >"$folder/c.scd" <<END
afar(7) "What a title says"

# NAME

*What a name says*
	What it does. *name* is
	short. _name_ is $long.
END

cat >"$folder/wanted" <<END
a.c:3: begins with What
a.c:4: begins with That
a.c:10: begins with Whether
a.c:11: 30 words
a.c:12: 26 words
b.md:3: begins with The same
b.md:3: 26 words
b.md:7: begins with As
b.md:7: 26 words
b.md:12: begins with Whoever
c.scd:6: begins with What
c.scd:7: 26 words
END
"$check_prose" "$folder" | sed -n "s|^$folder/\([^:]*:[0-9]*\): .*: |\1: |p" >"$folder/found"
diff "$folder/wanted" "$folder/found"
[ "$("$check_prose" -q --docs "$folder/b.md" "$folder/a.c")" = 'docs: 5' ]

# Without arguments it counts those of its own tree, and fails from one more than its limits on.
mkdir "$folder/scripts" "$folder/src" "$folder/docs"
mv "$folder/a.c" "$folder/src"
mv "$folder/b.md" "$folder/docs"
limits() {
	sed "s/^LIMITS = .*/LIMITS = {\"comments\": $1, \"docs\": $2}/" "$check_prose" >"$folder/scripts/check-prose"
	python3 "$folder/scripts/check-prose"
}
[ "$(limits 5 5)" = 'comments: 5, docs: 5' ]
for counts in '4 5' '5 4'; do
	# shellcheck disable=SC2086 # two arguments
	if limits $counts >"$folder/out" 2>&1; then
		echo "limits of $counts are kept by 5 and 5" >&2
		exit 1
	fi
done
