# SPDX-License-Identifier: BSD-3-Clause
# Programs list a directory while a native client makes a file there longer, and tells nobody. Each tells the right size.
#   files_listed.py HAND FS SERVERS [MOUNT AGED]    HAND: the program of file_hand.c; SERVERS: their pids, with commas between.
# AGED: a mount whose kernel believes what a listing told for some time.
import json
import os
import signal
import subprocess
import sys
import threading

STRIDE = 700
WORD = 8
LISTING_S = 2.5  # a listing waits for two seconds; there is nothing to see of what it has answered


class Writer:
    """A program that makes a file longer."""

    def __init__(self, hand, fs, name):
        self.hand = subprocess.Popen([hand, fs], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.size = 0
        self.ask("create", 0, name)

    def ask(self, *words):
        self.hand.stdin.write(" ".join(str(word) for word in words) + "\n")
        answer = int(self.hand.stdout.readline())
        assert answer >= 0, "%s: %d" % (words, answer)

    def go_on(self):
        for _ in range(100):
            self.ask("write", 0, self.size + STRIDE - WORD, self.size)
            self.size += STRIDE

    def kill(self):
        self.hand.kill()
        self.hand.wait()

    def end(self):
        self.hand.stdin.close()
        assert self.hand.wait() == 0


def afar(*words):
    return subprocess.run([os.environ["AFAR"], *words], check=True, stdout=subprocess.PIPE, text=True).stdout


def listed_as_json(fs, name):
    return {entry["name"]: entry["size_bytes"] for entry in json.loads(afar("ls", "--json", "/" + fs))}[name]


def listed_long(fs, name):
    return next(int(line.split()[4]) for line in afar("ls", "-l", "/" + fs).splitlines() if line.endswith(" " + name))


def got(fs, name):
    afar("get", "-r", "/" + fs, "got-" + name)
    size = os.path.getsize(os.path.join("got-" + name, name))
    subprocess.run(["rm", "-r", "got-" + name], check=True)
    return size


def scanned(mount, name):
    return next(entry for entry in os.scandir(mount) if entry.name == name).stat().st_size


def check(looks, place, name, size):
    for look in looks:
        seen = look(place, name)
        assert seen == size, "%s: %s bytes, and %d were written" % (look.__name__, seen, size)


def stop(pid):
    os.kill(pid, signal.SIGSTOP)
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/stat" % (pid, task)) as stat:
            while stat.read().rsplit(")", 1)[1].split()[0] != "T":
                stat.seek(0)


def check_stopped(look, place, name, writer, servers):
    """Nobody knows where the file ends before the servers go on."""
    for server in servers:
        stop(server)
    writer.kill()

    def go_on():
        for server in servers:
            os.kill(server, signal.SIGCONT)

    timer = threading.Timer(LISTING_S, go_on)
    timer.start()
    try:
        check([look], place, name, writer.size)
    finally:
        timer.join()


def main():
    hand, fs, servers, mounts = sys.argv[1], sys.argv[2], [int(pid) for pid in sys.argv[3].split(",")], sys.argv[4:]
    looks = [scanned] if mounts else [listed_long, listed_as_json, got]
    place = mounts[0] if mounts else fs
    writer = Writer(hand, fs, "lives")
    for look in looks:
        for _ in range(3):
            writer.go_on()
            check([look], place, "lives", writer.size)
    # Of each mount, or by each program.
    for look, where in [(scanned, mount) for mount in mounts] or [(look, fs) for look in looks]:
        name = "%s-%s" % (look.__name__, where)
        killed = Writer(hand, fs, name)
        killed.go_on()
        check_stopped(look, where, name, killed, servers)
    writer.go_on()
    check(looks, place, "lives", writer.size)
    writer.end()


main()
