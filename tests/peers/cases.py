"""Named cases for the Python peers: each script decorates functions with `@case("sentence")` and ends with
`run()`. Called by tests/peers_python_test.lua as `python3 SCRIPT PORT`. Prints "ok - name" or "not ok - name<TAB>why"
for each, and ends with 1 if one failed. Every socket has a timeout, so nothing hangs."""

import socket
import sys
import traceback

HOST = "127.0.0.1"
PORT = int(sys.argv[1])
SECONDS = 20

socket.setdefaulttimeout(SECONDS)
_cases = []


def case(name):
    def add(f):
        _cases.append((name, f))
        return f

    return add


def connect():
    s = socket.create_connection((HOST, PORT), SECONDS)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def eq(got, want):
    if got != want:
        raise AssertionError("got %.300r, want %.300r" % (got, want))


def run():
    failed = 0
    for name, f in _cases:
        try:
            f()
            print("ok - " + name, flush=True)
        except Exception:
            failed += 1
            print("not ok - %s\t%s" % (name, traceback.format_exc().replace("\n", " | ")), flush=True)
    sys.exit(1 if failed else 0)
