"""requests (on urllib3): a session with keep-alive, redirects, cookies, forms, streams in both directions, timeouts."""

import requests
from cases import HOST, PORT, SECONDS, case, eq, run

BASE = "http://%s:%d" % (HOST, PORT)


def session():
    s = requests.Session()
    s.trust_env = False  # no proxy of the environment
    return s


@case("JSON, text, HEAD, OPTIONS and 404 through one session")
def _():
    with session() as s:
        eq(s.get(BASE + "/json", timeout=SECONDS).json(), {"list": [1, 2, 3], "text": "gr\u00fcn"})
        r = s.get(BASE + "/", timeout=SECONDS)
        eq((r.text, r.encoding), ("Hello, World!\n", "utf-8"))
        eq(s.head(BASE + "/json", timeout=SECONDS).headers["content-type"], "application/json")
        eq(s.options(BASE + "/", timeout=SECONDS).headers["allow"], "GET, HEAD, OPTIONS")
        eq(s.get(BASE + "/none", timeout=SECONDS).status_code, 404)
        eq(len(s.adapters["http://"].poolmanager.pools), 1)


@case("queries, forms and JSON bodies arrive with their values")
def _():
    with session() as s:
        odd = {"a b": "c&d=e+f", "\u00fc": "%41", "list": ["1", "2"], "empty": ""}
        eq(s.get(BASE + "/echo", params=odd, timeout=SECONDS).json()["query"], odd)
        eq(s.post(BASE + "/form", data=odd, timeout=SECONDS).json(), odd)
        eq(s.post(BASE + "/echo", json={"x": [1]}, timeout=SECONDS).json()["type"], "application/json")


@case("redirects are followed, 307 with its method and body")
def _():
    with session() as s:
        r = s.get(BASE + "/redirect", timeout=SECONDS)
        eq((r.text, len(r.history)), ("Hello, World!\n", 1))
        got = s.post(BASE + "/redirect", data="kept", timeout=SECONDS).json()
        eq((got["method"], got["body"]), ("POST", "kept"))


@case("cookies are sent with the next request")
def _():
    with session() as s:
        eq(s.get(BASE + "/cookies", timeout=SECONDS).json() or {}, {})
        eq(s.get(BASE + "/cookies", timeout=SECONDS).json(), {"a": "1", "b": "2"})


@case("a generator is uploaded in chunks, a response is read as a stream")
def _():
    with session() as s:
        pieces = [b"%04d" % i * 500 for i in range(100)]
        with s.post(BASE + "/body", data=iter(pieces), stream=True, timeout=SECONDS) as r:
            eq(b"".join(r.iter_content(1000)), b"".join(pieces))
        with s.get(BASE + "/pieces?count=20&wait=0.005", stream=True, timeout=SECONDS) as r:
            eq(b"".join(r.iter_content(7)), b"x" * 200)
        with s.get(BASE + "/large?kib=4096", stream=True, timeout=SECONDS) as r:
            eq(sum(map(len, r.iter_content(65536))), 4 * 1024 * 1024)


@case("after a timeout, the next response comes over a new connection")
def _():
    with session() as s:
        try:
            s.get(BASE + "/slow?seconds=1", timeout=0.1)
            raise AssertionError("no time-out")
        except requests.exceptions.ReadTimeout:
            pass
        eq(s.get(BASE + "/", timeout=SECONDS).text, "Hello, World!\n")


run()
