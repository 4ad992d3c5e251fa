"""Outcomes of the garden: sends the bytes of a case to a server and describes the responses in one line, in the notation
of README.md."""

import asyncio
import re

# A server that has sent nothing for this time, in seconds, waits for more bytes.
QUIET = 1.2

# The same for a second attempt after an unexpected outcome, because the machine may have been busy.
PATIENT = 5


class Response:
    """`status`: an integer, or "0.9" for bytes without a head; `seen`: the field X-Seen; `closes`: whether no response
    may follow."""

    def __init__(self, status, seen=None, closes=False):
        self.status, self.seen, self.closes = status, seen, closes


def _body_end(data, at, fields, is_head, ended):
    if is_head:
        return at
    if "chunked" in fields.get("transfer-encoding", "").lower():
        while True:
            line = data.find(b"\r\n", at)
            if line < 0:
                return None
            size = int(data[at:line].split(b";")[0], 16)
            at = line + 2 + size + 2
            if size == 0 or at > len(data):
                return at if at <= len(data) else None
    if "content-length" in fields:
        end = at + int(fields["content-length"])
        return end if end <= len(data) else None
    return len(data) if ended else None


def responses(data, ended):
    """Returns the complete responses in `data`; `ended`: whether the server has closed the connection."""
    found, at = [], 0
    while at < len(data):
        if not b"HTTP/1.".startswith(data[at:at + 7]):
            return found + [Response("0.9", closes=True)]
        head_end = data.find(b"\r\n\r\n", at)
        if head_end < 0:
            break
        lines = data[at:head_end].decode("latin1").split("\r\n")
        status = int(lines[0].split(" ")[1])
        at = head_end + 4
        if 100 <= status < 200 and status != 101:
            continue
        fields = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            fields[name.lower()] = value.strip()
        seen = fields.get("x-seen")
        # The response to a refused HEAD has no body either.
        is_head = (seen or "").startswith("HEAD ") or status in (204, 304, 101) or data.startswith(b"HTTP/1.", at)
        end = _body_end(data, at, fields, is_head, ended)
        closes = "close" in fields.get("connection", "").lower() or lines[0].startswith("HTTP/1.0")
        found.append(Response(status, seen, closes))
        if end is None:
            break
        at = end
    return found


def is_next(response):
    return bool(response.seen) and response.seen.startswith("GET 2f6e657874 ")


async def send(port, data, before_close=None, quiet=QUIET):
    """Sends `data`. Returns the responses, and "open", "close" or "waits". `before_close`: an asynchronous function that
    is called while the connection is still open; `quiet`: replaces QUIET."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    received, ended, found = b"", False, []
    try:
        writer.write(data)
        while not (found and is_next(found[-1])):
            piece = await asyncio.wait_for(reader.read(1 << 20), quiet)
            if not piece:
                ended = True
            received += piece
            found = responses(received, ended)
            if ended:
                break
    except asyncio.TimeoutError:
        pass
    except OSError:
        ended = True
        found = responses(received, True)
    finally:
        if before_close:
            await before_close()
        writer.transport.abort()
    if ended or (found and found[-1].closes):
        return found, "close"
    return found, "open" if found and is_next(found[-1]) else "waits"


def _text(hexed):
    """The readable form of a part of X-Seen."""
    if hexed in ("-", "!"):
        return "" if hexed == "-" else "!"
    shown, _, length = hexed.partition("+")
    data = bytes.fromhex(shown)
    if length or len(data) > 40:
        return "%s..%s" % (escaped(data[:16]), length or len(data))
    return escaped(data)


def escaped(data):
    text = data.decode("latin1").replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t")
    return re.sub(r"[^ -~]", lambda m: "\\x%02x" % ord(m.group()), text)


def request_text(seen, with_host=True):
    """`POST /c [hello]`; the host only if it is not x."""
    method, target, host, body = seen.split(" ")
    host = _text(host)
    return "%s %s%s%s" % (method, _text(target), " @" + host if with_host and host != "x" else "",
        " [%s]" % _text(body) if body != "-" else "")


def describe(found, state):
    items = [request_text(r.seen) if r.seen else str(r.status) for r in found]
    return ", ".join(items + [state])
