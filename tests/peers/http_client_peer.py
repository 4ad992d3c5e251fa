"""Python's http.client: keep-alive, uploads with a length and in chunks, responses read in pieces, pipelined bytes."""

import http.client
import io
import json
import threading

from cases import HOST, PORT, SECONDS, case, connect, eq, run


def client():
    return http.client.HTTPConnection(HOST, PORT, timeout=SECONDS)


def ask(c, method, target, *args, **opts):
    c.request(method, target, *args, **opts)
    r = c.getresponse()
    return r.status, r.read()


@case("one connection serves request after request")
def _():
    c = client()
    eq(ask(c, "GET", "/"), (200, b"Hello, World!\n"))
    first = c.sock
    for _ in range(100):
        eq(ask(c, "GET", "/"), (200, b"Hello, World!\n"))
        eq(ask(c, "HEAD", "/"), (200, b""))
        eq(ask(c, "GET", "/nothing"), (204, b""))
        eq(ask(c, "GET", "/pieces?count=4"), (200, b"x" * 40))
    assert c.sock is first, "it connected anew"
    eq(ask(c, "GET", "/bye"), (200, b"bye\n"))
    eq(c.sock, None)


@case("uploads: a string, a file with its length, an iterator in chunks")
def _():
    c = client()
    body = b"0123456789" * 50000
    eq(ask(c, "POST", "/body", body), (200, body))
    eq(ask(c, "PUT", "/body", io.BytesIO(body)), (200, body))
    pieces = [b"%d" % i * i for i in range(1, 200)]
    eq(ask(c, "POST", "/body", iter(pieces), encode_chunked=True), (200, b"".join(pieces)))
    eq(ask(c, "POST", "/count", iter(pieces), encode_chunked=True), (200, b'{"bytes":%d}' % len(b"".join(pieces))))


@case("a response may be read a byte, a line or a piece at a time")
def _():
    c = client()
    c.request("GET", "/pieces?count=3&size=5000&wait=0.01")
    r = c.getresponse()
    data = r.read(1) + r.read1(100) + r.readline(300)
    while not r.isclosed():
        data += r.read(777)
    eq(data, b"x" * 15000)
    eq(ask(c, "GET", "/"), (200, b"Hello, World!\n"))


@case("a response that is cut short raises IncompleteRead")
def _():
    c = client()
    c.request("GET", "/cut")
    r = c.getresponse()
    try:
        r.read()
    except http.client.IncompleteRead as e:
        eq(e.partial, b"begun")
        return
    raise AssertionError("it was taken for complete")


@case("eight connections at once, one of them slow")
def _():
    results = []

    def work(i):
        c = client()
        for k in range(20):
            target = "/slow" if i == 0 else "/echo?i=%d&k=%d" % (i, k)
            status, body = ask(c, "GET", target)
            results.append(body == b"late\n" if i == 0 else json.loads(body)["query"] == {"i": str(i), "k": str(k)})

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    eq(results, [True] * 160)


@case("200 requests in one packet are answered in order")
def _():
    with connect() as s:
        s.sendall(b"".join(b"GET /path/%d HTTP/1.1\r\nHost: x\r\n\r\n" % i for i in range(200)))
        stream = s.makefile("rb")

        class Kept:  # HTTPResponse closes what it reads from; here the next answer is behind it.
            def makefile(self, *_):
                return self

            def __getattr__(self, name):
                return getattr(stream, name)

            def close(self):
                pass

        for i in range(200):
            r = http.client.HTTPResponse(Kept(), method="GET")
            r.begin()
            eq(r.read(), b"/path/%d" % i)


run()
