"""The backend behind the proxies of the garden: an HTTP/1.1 server that shows which requests a proxy has sent. It reads
only messages whose framing has one meaning; a request with another framing is recorded with the method ANOMALY."""

import asyncio
import re


def hexed(data):
    if not data:
        return "-"
    return data[:100].hex() + ("+%d" % len(data) if len(data) > 100 else "")


class Discarded:
    """A writer that discards everything."""

    def write(self, data):
        pass

    async def drain(self):
        pass

    def close(self):
        pass


class Backend:
    """`ledger`: a line for each request since it was emptied, as garden.lua describes. `connections`, `requests`: their
    numbers since the start."""

    def __init__(self):
        self.ledger, self.port, self.connections, self.requests = [], None, 0, 0

    async def start(self, server=None):
        """With the port of a `server`, that server responds: the backend passes the bytes on, and only reads them."""
        self.behind = server
        self.server = await asyncio.start_server(self._relay if server else self._serve, "127.0.0.1", 0, limit=1 << 20)
        self.port = self.server.sockets[0].getsockname()[1]

    async def _relay(self, reader, writer):
        """Passes the bytes of a proxy to the server and back."""
        copy = asyncio.StreamReader(limit=1 << 20)
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.behind)
        except OSError:
            writer.close()
            return

        async def pump(source, sink, tap=None):
            try:
                while data := await source.read(1 << 16):
                    if tap:
                        tap.feed_data(data)
                    sink.write(data)
                    await sink.drain()
            except (OSError, asyncio.CancelledError):
                pass
            if tap:
                tap.feed_eof()
            sink.close()

        try:
            await asyncio.gather(pump(reader, server_writer, copy), pump(server_reader, writer),
                self._serve(copy, Discarded()))
        except asyncio.CancelledError:
            # The program ends.
            pass

    async def _serve(self, reader, writer):
        self.connections += 1
        try:
            while await self._exchange(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
            # The peer has ended the connection, or the program ends.
            pass
        finally:
            writer.close()

    async def _exchange(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n"))[:-4]
        lines = head.split(b"\r\n")
        match = re.fullmatch(rb"([!-~]+) ([^\x00-\x20]+) HTTP/1\.[01]", lines[0])
        fields = [re.fullmatch(rb"([!#-'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*", line) for line in lines[1:]]
        if not match or not all(fields) or re.search(rb"[\x00\r\n]", b"".join(lines)):
            return self._anomaly(writer, head)
        values = {}
        for field in fields:
            values.setdefault(field[1].lower(), []).append(field[2])
        lengths, codings = values.get(b"content-length", []), values.get(b"transfer-encoding", [])
        if len(lengths) + len(codings) > 1 or any(c.lower() != b"chunked" for c in codings) \
                or not all(length.isdigit() and int(length) < 1 << 63 for length in lengths):
            return self._anomaly(writer, head)
        line = "%s %s %s " % (match[1].decode(), hexed(match[2]), hexed(values.get(b"host", [b""])[0]))
        self.requests += 1
        at, mine = len(self.ledger), self.ledger
        mine.append(line + "!")
        if values.get(b"expect", [b""])[0].lower() == b"100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await self._chunks(reader) if codings else await reader.readexactly(int((lengths or [b"0"])[0]))
        if body is None:
            return self._anomaly(writer, b"chunks of " + match[2])
        mine[at] = line + hexed(body)
        content = b"" if match[1] == b"HEAD" else b"seen\n"
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Seen: " + mine[at].encode() + b"\r\n\r\n" + content)
        await writer.drain()
        return True

    def _anomaly(self, writer, what):
        line = "ANOMALY %s - -" % hexed(what)
        self.ledger.append(line)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\nX-Seen: " + line.encode() + b"\r\n\r\n")
        return False

    @staticmethod
    async def _chunks(reader):
        pieces = []
        while True:
            line = await reader.readuntil(b"\r\n")
            if not re.fullmatch(rb"[0-9a-fA-F]{1,16}[^\r\n\x00]*\r\n", line):
                return None
            size = int(re.match(rb"[0-9a-fA-F]+", line)[0], 16)
            if size == 0:
                break
            pieces.append(await reader.readexactly(size))
            if await reader.readexactly(2) != b"\r\n":
                return None
        while await reader.readuntil(b"\r\n") != b"\r\n":
            pass
        return b"".join(pieces)
