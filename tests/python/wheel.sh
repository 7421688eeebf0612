#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A wheel of the module, made with Debian's tools, works like what meson builds.
# shellcheck source=tests/system/cluster.sh
. "$(dirname "$0")/../system/cluster.sh"

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
for module in build setuptools wheel pip; do
	"${PYTHON:?}" -c "import $module" 2>/dev/null || {
		echo "no Python module $module: python3-build, python3-setuptools, python3-wheel and python3-pip have them"
		exit 77
	}
done

cp -r "$root/python" source
CFLAGS="-I$root/include" LDFLAGS="-L${LIBAFAR:?the folder of libafar.so}" \
	"$PYTHON" -m build --wheel --no-isolation --outdir . source >build.log 2>&1 || fail "build: $(tail -n 20 build.log)"
ls afar-*-cp311-abi3-linux_*.whl >wheel.log 2>&1 || fail "no wheel for the stable ABI: $(ls)"
"$PYTHON" -m pip install -q --no-index --no-deps --target installed ./*.whl 2>pip.log || fail "pip: $(cat pip.log)"

start_cluster
cat >try.py <<'END'
import importlib.metadata
import afar

assert importlib.metadata.version("afar") == "0.1.0"
assert any(entry.name == "afar" for entry in importlib.metadata.entry_points(group="fsspec.specs"))
with afar.connect() as session:
    session.create_namespace("wheel")
    with session.namespace("wheel") as ns:
        ns.reserve(1 << 20)
        with ns.create("region", 4096) as region:
            region[:5] = b"hello"
            assert region[:5] == b"hello"
END
LD_LIBRARY_PATH=$LIBAFAR PYTHONPATH=$PWD/installed "$PYTHON" try.py || fail "the wheel does not work"
