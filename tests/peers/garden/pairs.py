"""Attempts of request smuggling through pairs of the garden: `python3 pairs.py [--details FILE] [--only WORD]
[--mutations COUNT [--seed SEED]]`. Each case of the corpus, or each of COUNT random mutations of the corpus, is sent to a
proxy, and a victim sends its own request on another connection, before and after the attacker's connection is closed.
The victim must get its own response, and the server must see only requests that the proxy sent.

- nginx, HAProxy, h2o, Caddy and Apache in front of lio. The requests that the proxy sent are those that backend.py,
  between the two, reads from the bytes that it passes on. The proxies must reuse connections, because
  smuggled bytes can reach a victim only on a connection that is used again. The handler of lio reads the bodies in one
  run, and leaves them unread in another.
- examples/reverse_proxy.lua of lio in front of h11, Node and nginx. The requests are those that lio's parser has given.

Prints "N passed, M failed" at the end. Called by tests/long/garden.sh."""

import argparse
import asyncio
import os
import random
import re
import sys
import tempfile

import backend
import corpus
import mutate
import outcome
import servers


async def ledger_of(port):
    """Empties the ledger of a server and returns its lines."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /ledger HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    data = await asyncio.wait_for(reader.read(-1), 10)
    writer.close()
    found = data.partition(b"\r\n\r\n")[2].decode("latin1")
    return [line for line in found.replace("\r", "").split("\n") if len(line.split(" ")) == 4]


class Pair:
    """A proxy on `port`, and the server behind it, whose ledger `take` returns and empties."""

    def __init__(self, name, port, take):
        self.name, self.port, self.take = name, port, take
        self.victims = 0

    async def victim(self, problems):
        self.victims += 1
        target = "/victim-%d" % self.victims
        data = ("GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % target).encode()
        found, _ = await outcome.send(self.port, data, quiet=outcome.PATIENT)
        got = [outcome.request_text(r.seen, False) if r.seen else str(r.status) for r in found]
        if got != ["GET " + target]:
            problems.append("the victim got %s" % got)
        return "GET %s" % target.encode().hex()

    async def attack(self, case, quiet=outcome.QUIET):
        """Returns the lines of the ledger without those of the victims, the outcome, and a list of problems."""
        problems, wanted = [], []

        async def first():
            wanted.append(await self.victim(problems))

        found, state = await outcome.send(self.port, case.data + corpus.NEXT, first, quiet)
        wanted.append(await self.victim(problems))
        lines, victims = [], []
        for line in await self.take():
            method, target, _, body = line.split(" ")
            is_victim = bytes.fromhex(target.partition("+")[0].replace("-", "")).startswith(b"/victim")
            if not is_victim:
                lines.append(line)
            else:
                victims.append("%s %s" % (method, target))
                if body != "-":
                    problems.append("the victim's request has the body " + body)
        if victims != wanted:
            problems.append("the server has seen the victims %s, not %s" % (victims, wanted))
        return lines, outcome.describe(found, state), problems


def key(line, with_body):
    """What must be equal of a request: the method, the target, and the body if the handler has read it."""
    method, target, _, body = line.split(" ")
    return method, target, with_body and body


def unexpected(seen, sent, with_body=True):
    """The first request of `seen` that is not in `sent`, in order; requests whose body is incomplete are left out."""
    rest = iter([key(line, with_body) for line in sent])
    for line in seen:
        if line.endswith(" !"):
            continue
        if key(line, with_body) not in rest:
            return line
    return None


def normalized(target):
    """The target that lio's proxy sends for `target`: without scheme and host, without dot segments, and with the bytes
    encoded that a URL cannot contain."""
    if not target.startswith(b"/"):
        after = target.split(b"://", 1)[-1]
        cut = min((i for i in (after.find(b"/"), after.find(b"?")) if i >= 0), default=len(after))
        target = b"/" + after[cut:].removeprefix(b"/")
    path, question, query = target.partition(b"?")
    kept = []
    parts = path.split(b"/")[1:]
    for at, part in enumerate(parts):
        dots = re.sub(rb"(?i)%2e", b".", part)
        if dots == b"..":
            kept = kept[:-1]
        elif dots != b".":
            kept.append(part)
            continue
        if at == len(parts) - 1:
            kept.append(b"")
    return re.sub(rb"[\x00-\x20\"<>\\`{}\x7f-\xff]|%(?![0-9A-Fa-f]{2})", lambda m: b"%%%02X" % m[0][0],
        b"/" + b"/".join(kept) + question + query)


def origin_form(line):
    """The line with the target that lio's proxy sends for it."""
    method, target, host, body = line.split(" ")
    if "+" in target:
        return line
    return " ".join((method, normalized(bytes.fromhex(target)).hex(), host, body))


async def twice(attempt, case):
    """The result of an attempt; of a second one with more time if the first had problems."""
    result = await attempt(case, outcome.QUIET)
    return await attempt(case, outcome.PATIENT) if result[0] else result


async def behind(name, garden, cases, report, mode):
    """lio behind the proxy `name`; `mode`: "read" or "unread"."""
    judge, lio = backend.Backend(), await asyncio.to_thread(garden.lio, mode)
    await judge.start(lio)
    title = name + " in front of lio" + (" that reads no bodies" if mode == "unread" else "")
    pair = Pair(name, await asyncio.to_thread(getattr(garden, name), judge.port), lambda: ledger_of(lio))

    async def attempt(case, quiet):
        judge.ledger = []
        seen, text, problems = await pair.attack(case, quiet)
        sent = [line for line in judge.ledger if not line.split(" ")[1].startswith(b"/victim".hex())]
        stray = unexpected(seen, sent, mode == "read")
        if stray:
            problems.append("lio has seen %s; the proxy has sent %s" % (outcome.request_text(stray),
                [outcome.request_text(line) for line in sent]))
        return problems, sent, seen, text

    for case in cases:
        report(title, case, *await twice(attempt, case))
    if judge.requests < 3 * judge.connections:
        raise RuntimeError("only %d requests on %d connections" % (judge.requests, judge.connections))
    print("%s: %d requests on %d connections" % (title, judge.requests, judge.connections))


async def in_front(name, garden, cases, report):
    """lio's proxy in front of the server `name`."""
    lio = await asyncio.to_thread(garden.lio)
    if name == "nginx":
        judge = backend.Backend()
        await judge.start()
        origin = await asyncio.to_thread(garden.nginx, judge.port)

        async def take():
            lines = judge.ledger
            judge.ledger = []
            return lines
    else:
        origin = await asyncio.to_thread(getattr(garden, name))

        async def take():
            return await ledger_of(origin)
    pair = Pair(name, await asyncio.to_thread(garden.lio_proxy, origin), take)
    async def attempt(case, quiet):
        await outcome.send(lio, case.data + corpus.NEXT, quiet=quiet)
        sent = [origin_form(line) for line in await ledger_of(lio)]
        seen, text, problems = await pair.attack(case, quiet)
        stray = unexpected(seen, sent)
        if stray:
            problems.append("%s has seen %s; lio has read %s" % (name, outcome.request_text(stray),
                [outcome.request_text(line) for line in sent]))
        return problems, sent, seen, text

    for case in cases:
        report("lio in front of " + name, case, *await twice(attempt, case))


async def main():
    options = argparse.ArgumentParser()
    options.add_argument("--details")
    options.add_argument("--only", default="")
    options.add_argument("--mutations", type=int)
    options.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = options.parse_args()
    cases, failures, details, passed = corpus.read(), [], [], {}
    if options.mutations:
        cases = mutate.cases(options.seed, options.mutations)
        print("seed %d" % options.seed)

    def report(pair, case, problems, sent, seen, text):
        if problems:
            failures.extend("%s: %s: %s" % (pair, case.name, problem) for problem in problems)
        else:
            passed[pair] = passed.get(pair, 0) + 1
        details.append("%s | %s | %s | %s | %s" % (pair, case.name, [outcome.request_text(line) for line in sent],
            [outcome.request_text(line) for line in seen], text))

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch, servers.Garden(scratch) as garden:
        os.chmod(scratch, 0o755)

        async def run(f, name, title, *more):
            if options.only not in title:
                return
            try:
                await f(name, garden, cases, report, *more)
            except (servers.Missing, RuntimeError) as problem:
                failures.append("%s: %s" % (title, problem))

        await asyncio.gather(*(run(behind, name, name + " in front of lio", "read") for name in servers.PROXIES),
            *(run(behind, name, name + " in front of lio, unread", "unread") for name in servers.PROXIES),
            *(run(in_front, name, "lio in front of " + name) for name in ("h11", "node", "nginx")))
    if options.details:
        with open(options.details, "w", encoding="utf-8") as file:
            file.write("\n".join(details) + "\n")
    for pair, count in passed.items():
        print("%s: %d of %d cases" % (pair, count, len(cases)))
    for failure in failures:
        print("FAILED: " + failure)
    print("%d passed, %d failed" % (sum(passed.values()), len(failures)))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
