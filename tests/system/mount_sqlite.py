# SPDX-License-Identifier: BSD-3-Clause
# SQLite with a write-ahead log on two mounts of one file system: no row that was acknowledged is ever missing. A program that cannot share the log's index with
# another machine is told so.
#   mount_sqlite.py HERE THERE    a folder of each
import os
import sqlite3
import sys
import time

ROWS = 60


def insert(path, writer):
    """Inserts rows until something is refused. Returns what was acknowledged, and the refusal."""
    acknowledged, refusal = [], None
    database = sqlite3.connect(path, timeout=2, isolation_level=None)
    try:
        for number in range(ROWS):
            database.execute("insert into log values (?)", (writer * ROWS + number,))
            acknowledged.append(writer * ROWS + number)
    except sqlite3.OperationalError as error:
        refusal = error
    database.close()
    return acknowledged, refusal


def rows_of(path):
    """A mount may have the index open for a moment after its programs have closed it."""
    until = time.monotonic() + 10 * int(os.environ.get("AFAR_SLOWNESS", "1"))
    while True:
        try:
            database = sqlite3.connect(path)
            rows = {row for (row,) in database.execute("select number from log")}
            database.close()
            return rows
        except sqlite3.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


def child(path, writer, told):
    acknowledged, refusal = insert(path, writer)
    told.write("%s\n%s\n" % (" ".join(map(str, acknowledged)), refusal or ""))
    told.flush()


def main():
    here, there = (os.path.join(folder, "rows.db") for folder in sys.argv[1:])
    first = sqlite3.connect(here, isolation_level=None)
    assert first.execute("pragma journal_mode=wal").fetchone() == ("wal",)
    first.execute("create table log (number integer)")
    first.execute("insert into log values (-1)")
    # While the first one has the index mapped, others of this mount may use it, and none of another.
    acknowledged, refusal = insert(here, 1)
    assert refusal is None and len(acknowledged) == ROWS, refusal
    others, refusal = insert(there, 2)
    assert refusal is not None and not others, "both mounts have the index mapped"
    first.execute("insert into log values (-2)")
    first.close()
    # In turn they may. Both at once: each row that one was told of is there.
    ends = []
    for writer, path in enumerate((here, there), 3):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                child(path, writer, os.fdopen(writing, "w"))
            finally:
                os._exit(0)
        os.close(writing)
        ends.append((pid, os.fdopen(reading)))
    told = {-1, -2} | set(acknowledged)
    for pid, end in ends:
        told |= {int(word) for word in end.readline().split()}
        end.readline()
        os.waitpid(pid, 0)
    for path in there, here:
        missing = told - rows_of(path)
        assert not missing, "%d of %d rows that were acknowledged are lost" % (len(missing), len(told))
    print("%d rows acknowledged, none lost" % len(told))


main()
