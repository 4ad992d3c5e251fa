"""Sends the responses of responses.txt to lio's HTTP client, and to those of h11, Node and Python, and compares what they
have read: `python3 responses.py [--table FILE] [--details FILE]`. lio's outcomes must be those of responses.txt. The next
request of a client is on the same connection, if the client uses it again, and should get its own response. Prints
"N passed, M failed" at the end. Called by tests/long/garden.sh."""

import argparse
import asyncio
import os
import re
import sys

import corpus
import origins
import servers

CASES = corpus.read("responses.txt")
KINDS = ("same", "stricter", "laxer", "differs", "next one wrong")


class Origin:
    """Responds to /case/N with the bytes of the case, and to /next/N with `next N`. `reused`: the numbers of the cases
    after which the same connection was used again."""

    def __init__(self):
        self.reused = set()

    async def start(self):
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return server.sockets[0].getsockname()[1]

    async def _serve(self, reader, writer):
        last = None
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                kind, number = re.match(rb"GET (?:http://[^/ ]*)?/(case|next)/(\d+) ", head).groups()
                if kind == b"case":
                    last = int(number)
                    writer.write(CASES[last].data)
                    if CASES[last].name.startswith("end: "):
                        break
                else:
                    if last == int(number):
                        self.reused.add(last)
                    body = b"next " + number
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        writer.close()


async def run(command):
    """Returns the outcomes of a client: (the response or "error", "reused" or "new" or what the next request got)."""
    origin = Origin()
    port = await origin.start()
    environment = {**os.environ, "LUA_PATH": "%s/?.lua;%s/lualib/?.lua;;" % (servers.ROOT, servers.ROOT)}
    process = await asyncio.create_subprocess_exec(*command, "http://127.0.0.1:%d" % port, str(len(CASES)),
        stdout=asyncio.subprocess.PIPE, env=environment, cwd=servers.ROOT)
    output, _ = await asyncio.wait_for(process.communicate(), 300)
    outcomes = []
    for line in output.decode().splitlines():
        at, first, second = line.split("\t")
        after = "reused" if int(at) in origin.reused else "new"
        outcomes.append((first, after if second == "next " + at else "next request got " + second))
    return outcomes


def compare(lio, other):
    if other[1] not in ("reused", "new"):
        return "next one wrong"
    if lio[0] != other[0]:
        return "stricter" if lio[0] == "error" else "laxer" if other[0] == "error" else "differs"
    return "same" if lio[1] == other[1] else "stricter" if lio[1] == "new" else "laxer"


async def main():
    options = argparse.ArgumentParser()
    options.add_argument("--table")
    options.add_argument("--details")
    options = options.parse_args()
    python = [sys.executable, "-B", os.path.join(servers.FOLDER, "client_python.py")]
    clients = {
        "lio": [servers.LIO, os.path.join(servers.FOLDER, "client_lio.lua")],
        "h11": python + ["h11"],
        "Python's http.client": python + ["http.client"],
        "Node": ["node", os.path.join(servers.FOLDER, "client_node.js")],
    }
    outcomes, failures, passed = {}, [], 0
    for name, command in clients.items():
        try:
            outcomes[name] = await run(command)
            if len(outcomes[name]) != len(CASES):
                raise RuntimeError("it ended after %d cases" % len(outcomes.pop(name)))
        except (OSError, RuntimeError) as problem:
            failures.append("%s: %s" % (name, problem))
    for case, got in zip(CASES, outcomes.get("lio", ())):
        if ", ".join(got) == case.want:
            passed += 1
        else:
            failures.append("lio: %s: got %s, want %s" % (case.name, ", ".join(got), case.want))
    names, results, details = [name for name in outcomes if name != "lio"], {}, []
    decisions = origins.read_decisions()
    for name in names:
        results[name] = [compare(*pair) for pair in zip(outcomes["lio"], outcomes[name])]
        for case, kind, ours, theirs in zip(CASES, results[name], outcomes["lio"], outcomes[name]):
            if kind in ("same", "stricter", "next one wrong") or origins.decided(decisions, "client", kind, case.name):
                passed += 1
            else:
                failures.append("%s: lio %s: %s" % (name, kind, case.name))
            if kind != "same":
                details.append("%s | %s | %s | %s | %s" % (name, kind, case.name, ", ".join(ours), ", ".join(theirs)))
    text = origins.table(names, CASES, results, KINDS)
    for option, content in ((options.table, text), (options.details, "\n".join(details) + "\n")):
        if option:
            with open(option, "w", encoding="utf-8") as file:
                file.write(content)
    print(text)
    for failure in failures:
        print("FAILED: " + failure)
    print("%d passed, %d failed" % (passed, len(failures)))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
