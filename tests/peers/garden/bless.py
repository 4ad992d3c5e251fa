"""Writes the outcomes of lio into corpus.txt and responses.txt: `python3 tests/peers/garden/bless.py`. Examine the
difference with git before you commit it. Needs LIO_BIN or target/release/lio."""

import asyncio
import os
import tempfile

import corpus
import outcome
import responses
import servers


def write(name, outcomes):
    path = os.path.join(corpus.FOLDER, name)
    wanted = iter(outcomes)
    with open(path, encoding="ascii") as file:
        lines = [line for line in file if not line.startswith("< ")]
    with open(path, "w", encoding="ascii") as file:
        for line in lines:
            file.write(line)
            if line.startswith("> "):
                file.write("< %s\n" % next(wanted))


async def main():
    with tempfile.TemporaryDirectory() as scratch, servers.Garden(scratch) as garden:
        port, limit = garden.lio(), asyncio.Semaphore(16)

        async def one(case):
            async with limit:
                return outcome.describe(*await outcome.send(port, case.data + corpus.NEXT))

        write("corpus.txt", await asyncio.gather(*map(one, corpus.read())))
    client = [servers.LIO, os.path.join(servers.FOLDER, "client_lio.lua")]
    write("responses.txt", [", ".join(got) for got in await responses.run(client)])


asyncio.run(main())
