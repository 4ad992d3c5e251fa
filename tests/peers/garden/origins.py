"""Sends the corpus of the garden to lio and to the other servers, and compares what their handlers have seen:
`python3 origins.py [--table FILE] [--details FILE]`. The handler behind a reverse proxy is backend.py. lio's outcomes must
be those of corpus.txt, and each case where lio is laxer, or reads other requests, must be in decisions.txt. Prints
"N passed, M failed" at the end. Called by tests/long/garden.sh."""

import argparse
import asyncio
import fnmatch
import os
import sys
import tempfile

import backend
import corpus
import outcome
import servers

# The number of connections to one server at a time.
AT_A_TIME = 8
KINDS = ("same", "stricter", "laxer", "differs")


def view(found, state):
    """The outcome without hosts and targets: what matters for the framing."""
    items = []
    for response in found:
        if response.seen:
            method, _, _, body = response.seen.split(" ")
            items.append(("anomaly",) if method == "ANOMALY" else ("request", method, body))
        elif isinstance(response.status, int) and response.status < 400:
            items.append(("answered",))
        else:
            items.append(("refused", response.status))
    if state == "close" and not (found and found[-1].closes):
        # The server has closed the connection without a response.
        items.append(("refused", None))
    return items + [("end", state)]


def same(a, b):
    """Whether two items mean the same for the framing. A server may refuse a method or a path, and read on."""
    kinds = {a[0], b[0]}
    if kinds == {"request"} or kinds == {"end"}:
        return a == b
    if kinds == {"request", "refused"}:
        return (a if a[0] == "refused" else b)[1] in (403, 404, 405, 501)
    return kinds == {"refused"} or "answered" in kinds and kinds <= {"answered", "request"}


def compare(lio, other):
    """One of KINDS: how lio's view differs from that of another server."""
    if len(lio) == len(other) and all(map(same, lio, other)):
        return "same"
    for ours, theirs in zip(lio, other):
        if ours[0] == theirs[0] == "refused" or not same(ours, theirs):
            if ours[0] in ("request", "answered"):
                return "differs" if theirs[0] in ("request", "anomaly") else "laxer"
            if theirs[0] in ("request", "answered", "anomaly"):
                return "stricter"
            if "refused" in (ours[0], theirs[0]):
                if ours[0] == theirs[0]:
                    # Both refuse. A server that reads on after the refusal is laxer.
                    return "same" if ("end", "open") not in (lio[-1], other[-1]) else \
                        "stricter" if other[-1] == ("end", "open") else "laxer"
                return "stricter" if ours[0] == "refused" or ours == ("end", "close") else "laxer"
            # Only the ends differ.
            return "stricter" if ours == ("end", "close") else "laxer"
    raise AssertionError("no difference")


def read_decisions():
    """The lines of decisions.txt: server, kind, pattern of names, reason."""
    with open(os.path.join(servers.FOLDER, "decisions.txt"), encoding="ascii") as file:
        return [[part.strip() for part in line.split("|")] for line in file if line.strip() and line[0] != "#"]


def decided(decisions, server, kind, name):
    return any((server in s.split() or s == "*") and kind == k and fnmatch.fnmatchcase(name, n)
        for s, k, n, _ in decisions)


def is_expected(name, theirs, ours, case, decisions):
    """Whether the outcome of the server `name` is that of lio, laxer than that of lio, or listed in
    decisions.txt."""
    kind = compare(view(*ours), view(*theirs))
    return kind in ("same", "stricter") or decided(decisions, name, kind, case.name)


async def ask(port, cases, quiet=outcome.QUIET):
    limit = asyncio.Semaphore(AT_A_TIME)

    async def one(case):
        async with limit:
            return await outcome.send(port, case.data + corpus.NEXT, quiet=quiet)

    return await asyncio.gather(*map(one, cases))


def table(names, cases, results, kinds=KINDS):
    lines = ["| cases | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    classes = list(dict.fromkeys(case.kind for case in cases))
    for kind in classes + [None]:
        mine = [i for i, case in enumerate(cases) if kind in (case.kind, None)]
        cells = []
        for name in names:
            counts = [sum(results[name][i] == k for i in mine) for k in kinds]
            cells.append(" · ".join(map(str, counts)))
        lines.append("| %s (%d) | %s |" % (kind or "**all**", len(mine), " | ".join(cells)))
    return "\n".join(lines) + "\n"


async def main():
    options = argparse.ArgumentParser()
    options.add_argument("--table")
    options.add_argument("--details")
    options = options.parse_args()
    cases, decisions, failures = corpus.read(), read_decisions(), []
    passed = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch, servers.Garden(scratch) as garden:
        os.chmod(scratch, 0o755)
        back = backend.Backend()
        await back.start()
        ports = {}
        for name in ("lio",) + servers.ORIGINS + servers.PROXIES:
            start = getattr(garden, name)
            try:
                arguments = [back.port] if name in servers.PROXIES else []
                ports[name] = await asyncio.to_thread(start, *arguments)
            except (servers.Missing, RuntimeError) as problem:
                failures.append("%s: %s" % (name, problem))
        answers = dict(zip(ports, await asyncio.gather(*(ask(port, cases) for port in ports.values()))))
        # Again with more time, because the machine may have been busy.
        suspects = [i for i, case in enumerate(cases) if outcome.describe(*answers["lio"][i]) != case.want or any(
            not is_expected(name, answers[name][i], answers["lio"][i], case, decisions) for name in ports)]
        for name, port in ports.items():
            again = await ask(port, [cases[i] for i in suspects], outcome.PATIENT)
            for i, answer in zip(suspects, again):
                answers[name][i] = answer
    for case, answer in zip(cases, answers["lio"]):
        got = outcome.describe(*answer)
        if got == case.want:
            passed += 1
        else:
            failures.append("lio: %s: got %s, want %s" % (case.name, got, case.want))
    results, details = {}, []
    for name in ports:
        if name == "lio":
            continue
        results[name] = []
        for case, ours, theirs in zip(cases, answers["lio"], answers[name]):
            kind = compare(view(*ours), view(*theirs))
            results[name].append(kind)
            if is_expected(name, theirs, ours, case, decisions):
                passed += 1
            else:
                failures.append("%s: lio %s: %s" % (name, kind, case.name))
            if kind != "same":
                details.append("%s | %s | %s | %s | %s" % (name, kind, case.name, outcome.describe(*ours),
                    outcome.describe(*theirs)))
    text = table([name for name in ports if name != "lio"], cases, results)
    if options.table:
        with open(options.table, "w", encoding="utf-8") as file:
            file.write(text)
    if options.details:
        with open(options.details, "w", encoding="utf-8") as file:
            file.write("\n".join(details) + "\n")
    for name, version in garden.versions.items():
        print("%s: %s" % (name, version))
    print(text)
    for failure in failures:
        print("FAILED: " + failure)
    print("%d passed, %d failed" % (passed, len(failures)))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
