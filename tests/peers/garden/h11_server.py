"""h11 for the garden: responds to each request with what the parser has given, in the field X-Seen, as garden.lua
describes. Started by servers.py; prints its port."""

import asyncio

import h11

ledger = []


def hexed(data):
    if not data:
        return "-"
    return data[:100].hex() + ("+%d" % len(data) if len(data) > 100 else "")


async def serve(reader, writer):
    try:
        await exchange(reader, writer)
    except OSError:
        pass
    finally:
        writer.close()


def respond(conn, status, fields, body, method):
    fields = fields + [("Content-Length", str(len(body)))]
    out = conn.send(h11.Response(status_code=status, headers=fields))
    out += conn.send(h11.Data(data=body if method != b"HEAD" else b""))
    return out + conn.send(h11.EndOfMessage())


async def exchange(reader, writer):
    conn = h11.Connection(h11.SERVER)
    request, body, at, text = None, b"", 0, ""
    while True:
        try:
            event = conn.next_event()
        except h11.RemoteProtocolError as problem:
            if conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                writer.write(respond(conn, problem.error_status_hint, [("Connection", "close")], b"refused\n", b""))
                await writer.drain()
            return
        if event is h11.NEED_DATA:
            if conn.they_are_waiting_for_100_continue:
                writer.write(conn.send(h11.InformationalResponse(status_code=100, headers=[])))
            conn.receive_data(await reader.read(65536))
        elif isinstance(event, h11.Request):
            request, body = event, b""
            host = dict(event.headers).get(b"host", b"")
            text = "%s %s %s " % (event.method.decode("latin1"), hexed(event.target), hexed(host))
            if event.target != b"/ledger":
                ledger.append(text + "!")
                at = len(ledger) - 1
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            if request.target == b"/ledger":
                writer.write(respond(conn, 200, [], "\n".join(ledger).encode(), b""))
                ledger.clear()
            else:
                if at < len(ledger):
                    ledger[at] = text + hexed(body)
                status = 405 if request.method == b"CONNECT" else 200
                writer.write(respond(conn, status, [("X-Seen", text + hexed(body))], b"seen\n", request.method))
            await writer.drain()
            if conn.our_state is not h11.DONE or conn.their_state is not h11.DONE:
                return
            conn.start_next_cycle()
        elif event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
            return


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print("port %d" % server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
