"""Writes the outcomes of lio into corpus.txt: `python3 tests/peers/garden/bless.py`. Examine the difference with git
before you commit it. Needs LIO_BIN or target/release/lio."""

import asyncio
import tempfile

import corpus
import outcome
from servers import Garden


async def main():
    with tempfile.TemporaryDirectory() as scratch, Garden(scratch) as garden:
        port, limit = garden.lio(), asyncio.Semaphore(16)

        async def one(case):
            async with limit:
                case.want = outcome.describe(*await outcome.send(port, case.data + corpus.NEXT))

        cases = corpus.read()
        await asyncio.gather(*map(one, cases))
    wanted = iter(cases)
    with open(corpus.PATH, encoding="ascii") as file:
        lines = [line for line in file if not line.startswith("< ")]
    with open(corpus.PATH, "w", encoding="ascii") as file:
        for line in lines:
            file.write(line)
            if line.startswith("> "):
                file.write("< %s\n" % next(wanted).want)


asyncio.run(main())
