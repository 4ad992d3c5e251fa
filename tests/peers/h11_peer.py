"""h11, a strict parser of HTTP/1.1, must accept every response of the server, and find no further bytes."""

import h11
from cases import case, connect, eq, run


class Peer:
    """A connection whose requests and responses go through the state machine of h11."""

    def __init__(self):
        self.socket = connect()
        self.h11 = h11.Connection(our_role=h11.CLIENT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, event):
        data = self.h11.send(event)
        if data:
            self.socket.sendall(data)

    def event(self):
        while True:
            event = self.h11.next_event()
            if event is not h11.NEED_DATA:
                return event
            self.h11.receive_data(self.socket.recv(65536))

    def begin(self, method, target, headers=()):
        self.send(h11.Request(method=method, target=target, headers=[("Host", "peer"), *headers]))

    def pretend(self, method, raw):
        """Sends `raw`, after h11 has made a plain request of this method that is not sent."""
        self.h11.send(h11.Request(method=method, target="/", headers=[("Host", "peer")]))
        self.h11.send(h11.EndOfMessage())
        self.socket.sendall(raw)

    def answer(self):
        """Reads one response: (status, headers, body, interim statuses)."""
        interim, body = [], b""
        event = self.event()
        while isinstance(event, h11.InformationalResponse):
            interim.append(event.status_code)
            event = self.event()
        assert isinstance(event, h11.Response), event
        head = event
        event = self.event()
        while isinstance(event, h11.Data):
            body += bytes(event.data)
            event = self.event()
        assert isinstance(event, h11.EndOfMessage), event
        headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
        return head.status_code, headers, body, interim

    def ask(self, method, target, headers=(), body=None):
        if body is not None:
            headers = [*headers, ("Content-Length", str(len(body)))]
        self.begin(method, target, headers)
        if body:
            self.send(h11.Data(data=body))
        self.send(h11.EndOfMessage())
        return self.answer()

    def again(self):
        """The response has left the connection open, and no further bytes have arrived."""
        eq(self.h11.trailing_data, (b"", False))
        eq((self.h11.our_state, self.h11.their_state), (h11.DONE, h11.DONE))
        self.h11.start_next_cycle()

    def over(self):
        """The response has said that it is the last, and the connection ends after it."""
        eq(self.h11.their_state, h11.MUST_CLOSE)
        eq(self.h11.trailing_data[0], b"")
        eq(self.socket.recv(1), b"")
        self.h11.receive_data(b"")
        eq(self.h11.next_event(), h11.ConnectionClosed())


PLAIN = [
    ("/", 200, b"Hello, World!\n"),
    ("/empty", 200, b""),
    ("/nothing", 204, b""),
    ("/json", 200, None),
    ("/list", 200, b"one two three"),
    ("/pieces?count=5", 200, b"x" * 50),
    ("/pieces?count=0", 204, b""),
    ("/pieces?count=3&size=100000", 200, b"x" * 300000),
    ("/known-length", 200, b"a" * 10 + b"b" * 10),
    ("/large?kib=4096", 200, b"0123456789abcdef" * 65536 * 4),
    ("/cookies", 200, None),
    ("/redirect", 302, None),
    ("/raise", 500, b"Internal Server Error\n"),
    ("/missing", 404, None),
]


@case("keep-alive: responses of every kind, one after another on one connection")
def _():
    with Peer() as p:
        for _ in range(3):
            for target, status, body in PLAIN:
                got = p.ask("GET", target)
                eq((target, got[0]), (target, status))
                if body is not None:
                    eq(got[2], body)
                p.again()


@case("HEAD gets the head of GET and no body")
def _():
    with Peer() as p:
        for target, status, _ in PLAIN:
            got = p.ask("HEAD", target)
            eq((target, got[0], got[2]), (target, status, b""))
            p.again()


@case("every status: with its body, or without one if it must not have one")
def _():
    with Peer() as p:
        for code in list(range(200, 209)) + list(range(300, 309)) + list(range(400, 452)) + list(range(500, 512)):
            for method in "GET", "HEAD":
                got = p.ask(method, "/status/%d" % code)
                eq(got[0], code)
                if code in (204, 304) or method == "HEAD":
                    eq(got[2], b"")
                p.again()


@case("bodies with a length and in chunks are sent back, also while they arrive")
def _():
    with Peer() as p:
        for body in b"", b"x", b"0123456789" * 20000:
            eq(p.ask("POST", "/body", body=body)[2], body)
            p.again()
        for path in "/body", "/mirror":
            p.begin("POST", path, [("Transfer-Encoding", "chunked")])
            for i in range(50):
                p.send(h11.Data(data=b"%05d" % i * (i + 1)))
            p.send(h11.EndOfMessage(headers=[("X-Sum", "1")]))
            eq(p.answer()[2], b"".join(b"%05d" % i * (i + 1) for i in range(50)))
            p.again()


@case("trailers reach the handler")
def _():
    with Peer() as p:
        p.begin("POST", "/trailers", [("Transfer-Encoding", "chunked"), ("Trailer", "X-Sum")])
        p.send(h11.Data(data=b"abc"))
        p.send(h11.EndOfMessage(headers=[("X-Sum", "17")]))
        status, _, body, _ = p.answer()
        eq(status, 200)
        assert b'"17"' in body, body
        p.again()


@case("100-continue: the interim response, then the final one, or only the refusal")
def _():
    with Peer() as p:
        p.begin("POST", "/body", [("Content-Length", "5"), ("Expect", "100-continue")])
        event = p.event()
        eq((type(event), event.status_code), (h11.InformationalResponse, 100))
        p.send(h11.Data(data=b"hello"))
        p.send(h11.EndOfMessage())
        eq(p.answer()[2], b"hello")
        p.again()
        p.begin("POST", "/refuse", [("Content-Length", "5"), ("Expect", "100-continue")])
        status, _, _, interim = p.answer()
        eq((status, interim), (403, []))
        eq(p.h11.their_state, h11.MUST_CLOSE)


@case("a body over the limit: 413 before it is sent, and the connection ends")
def _():
    with Peer() as p:
        p.begin("POST", "/body", [("Content-Length", str(65 * 1024 * 1024))])
        eq(p.answer()[0], 413)
        eq(p.h11.their_state, h11.MUST_CLOSE)


@case("405 with Allow, OPTIONS and OPTIONS * without a body")
def _():
    with Peer() as p:
        got = p.ask("DELETE", "/")
        eq((got[0], got[1]["allow"]), (405, "GET, HEAD, OPTIONS"))
        p.again()
        for target in "/", "*":
            got = p.ask("OPTIONS", target)
            eq((got[0], got[2]), (204, b""))
            assert "GET" in got[1]["allow"], got
            p.again()


@case("Connection: close of either side ends the connection after the response")
def _():
    for target, headers in ("/", [("Connection", "close")]), ("/bye", []), ("/pieces", [("Connection", "close")]):
        for method in "GET", "HEAD":
            with Peer() as p:
                eq(p.ask(method, target, headers)[0], 200)
                p.over()


@case("a response that is cut short is not complete")
def _():
    with Peer() as p:
        p.begin("GET", "/cut")
        p.send(h11.EndOfMessage())
        try:
            p.answer()
        except h11.RemoteProtocolError:
            return
        raise AssertionError("h11 took it for complete")


@case("HTTP/1.0: a length or the connection's end, never chunks; keep-alive if it is requested")
def _():
    for target, body in (b"/", b"Hello, World!\n"), (b"/pieces?count=4", b"x" * 40), (b"/empty", b""):
        with Peer() as p:
            p.pretend("GET", b"GET " + target + b" HTTP/1.0\r\n\r\n")
            _, headers, got, _ = p.answer()
            eq(got, body)
            assert "transfer-encoding" not in headers
            p.over()
    with Peer() as p:
        for _ in range(3):
            p.pretend("GET", b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            _, headers, got, _ = p.answer()
            eq((headers["connection"], got), ("keep-alive", b"Hello, World!\n"))
            p.again()


REFUSED = [
    (b"GET\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\n\r\n", 400),
    (b"GET / HTTP/1.1\nHost: x\n\n", 400),
    (b"GET / HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", 400),
    (b"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    (b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 0x5\r\n\r\nhello", 400),
    (b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    (b"POST /body HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", 400),
    (b"POST /body HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
    (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 33000 + b"\r\n\r\n", 431),
    (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 101 + b"\r\n", 431),
    (b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: more\r\n\r\n", 417),
    (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505),
]


@case("refusals are well-formed responses, and say that they are the last")
def _():
    for raw, status in REFUSED:
        with Peer() as p:
            p.pretend("GET", raw)
            got = p.answer()
            eq((raw[:80], got[0]), (raw[:80], status))
            eq(got[1]["connection"], "close")
            p.over()


@case("pipelined requests: each response ends where the next begins")
def _():
    with connect() as s:
        s.sendall(b"".join(b"%s %s HTTP/1.1\r\nHost: x\r\n\r\n" % (method, target) for method, target in [
            (b"GET", b"/"), (b"HEAD", b"/pieces"), (b"GET", b"/pieces"), (b"GET", b"/nothing"),
            (b"GET", b"/status/304"), (b"GET", b"/slow?seconds=0.05"), (b"GET", b"/bye")]))
        data = b""
        while True:
            more = s.recv(65536)
            if not more:
                break
            data += more
    for method, body in ("GET", b"Hello, World!\n"), ("HEAD", b""), ("GET", b"x" * 30), ("GET", b""), ("GET", b""), (
            "GET", b"late\n"), ("GET", b"bye\n"):
        c = h11.Connection(our_role=h11.CLIENT)
        c.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
        c.send(h11.EndOfMessage())
        c.receive_data(data)
        got, event = b"", c.next_event()
        assert isinstance(event, h11.Response), event
        event = c.next_event()
        while isinstance(event, h11.Data):
            got, event = got + bytes(event.data), c.next_event()
        assert isinstance(event, h11.EndOfMessage), event
        eq(got, body)
        data = c.trailing_data[0]
    eq(data, b"")


run()
