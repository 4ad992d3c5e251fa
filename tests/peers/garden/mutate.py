"""Sends random mutations of the corpus to lio and to the other servers: `python3 mutate.py SECONDS [SEED]`. Reports two
kinds of findings: a server that accepts the bytes, but reads other requests than lio; and bytes that only lio accepts.
Prints the bytes and all outcomes of each finding, and at the end "N passed, M failed": the number of inputs without a
finding, and the number of findings."""

import asyncio
import os
import random
import sys
import tempfile
import time

import backend
import corpus
import origins
import outcome
import servers

TOKENS = [b"\r", b"\n", b"\r\n", b" ", b"\t", b"\0", b";", b",", b":", b'"', b"0", b"5", b"+", b"-", b"\x0b", b"\x7f", b"\xff",
    b"\r\n ", b"\n\n", b"\r\r", b"chunked", b"0\r\n\r\n", b"5\r\nhello\r\n", b"HTTP/1.1", b"Host: x\r\n", b"Host: y\r\n",
    b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: x\r\n",
    b"Connection: close\r\n", b"Expect: 100-continue\r\n", b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n", b";a=\"", b"=", b"\\"]


def mutated(rng, inputs):
    data = bytearray(rng.choice(inputs))
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(6)
        if kind <= 1:
            data[at:at] = rng.choice(TOKENS)
        elif kind == 2:
            del data[at:at + rng.choice((1, 1, 2, 4))]
        elif kind == 3:
            data[at:at + 1] = rng.choice(TOKENS)
        elif kind == 4:
            lines = data.split(b"\r\n")
            one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[one], lines[other] = lines[other], lines[one]
            data = bytearray(b"\r\n".join(lines))
        else:
            # The head of one case with the body of another.
            other = rng.choice(inputs)
            data = bytearray(bytes(data).partition(b"\r\n\r\n")[0] + b"\r\n\r\n" + other.partition(b"\r\n\r\n")[2])
    return bytes(data)


def cases(seed, count):
    """Returns `count` mutations as cases for pairs.py."""
    rng, inputs = random.Random(seed), [case.data for case in corpus.read() if 0 < len(case.data) < 400]
    found = []
    for _ in range(count):
        data = mutated(rng, inputs)
        found.append(corpus.Case("mutations", "mutation " + outcome.escaped(data)))
        found[-1].data = data
    return found


def accepts(answer):
    """Whether the first request is accepted."""
    items = origins.view(*answer)
    return items[0][0] in ("request", "answered", "anomaly")


async def ask(ports, data, quiet):
    answers = await asyncio.gather(*(outcome.send(port, data + corpus.NEXT, quiet=quiet) for port in ports.values()))
    return dict(zip(ports, answers))


def finding(answers):
    """Returns a text, or None."""
    lio = origins.view(*answers["lio"])
    for name, answer in answers.items():
        theirs = origins.view(*answer)
        if name != "lio" and origins.compare(lio, theirs) == "differs" and ("anomaly",) not in theirs:
            return "%s reads other requests" % name
    if accepts(answers["lio"]) and sum(map(accepts, answers.values())) == 1:
        return "only lio accepts"
    return None


async def main(seconds, seed):
    rng, ports, findings, count = random.Random(seed), {}, 0, 0
    inputs = [case.data for case in corpus.read() if 0 < len(case.data) < 400]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch, servers.Garden(scratch) as garden:
        os.chmod(scratch, 0o755)
        back = backend.Backend()
        await back.start()
        for name in ("lio",) + servers.ORIGINS + servers.PROXIES:
            arguments = [back.port] if name in servers.PROXIES else []
            try:
                ports[name] = await asyncio.to_thread(getattr(garden, name), *arguments)
            except (servers.Missing, RuntimeError) as problem:
                findings += 1
                print("FAILED: %s: %s" % (name, problem))
        end = time.monotonic() + seconds

        async def work():
            nonlocal findings, count
            while time.monotonic() < end:
                data = mutated(rng, inputs)
                count += 1
                if not finding(await ask(ports, data, 0.4)):
                    continue
                # Again with more time, because a server may have been slow.
                answers = await ask(ports, data, 2)
                what = finding(answers)
                if what:
                    findings += 1
                    print("FAILED: %s: %s" % (what, outcome.escaped(data)))
                    for name, answer in answers.items():
                        print("  %s: %s" % (name, outcome.describe(*answer)), flush=True)

        await asyncio.gather(*(work() for _ in range(16)))
    print("seed %d" % seed)
    print("%d passed, %d failed" % (count - findings, findings))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32))))
