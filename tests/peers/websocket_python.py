"""A peer on the Python package websockets: `websocket_python.py client URL` sends messages to a server that echoes;
`websocket_python.py server` prints its port, echoes, and ends with the first connection. Both print the events of the
connection, one a line."""

import asyncio
import sys

from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed


def show(*words):
    print(*words, flush=True)


def kind_of(message):
    return "text" if isinstance(message, str) else "binary"


def length_of(message):
    return len(message.encode() if isinstance(message, str) else message)


async def client(url):
    async with connect(url, subprotocols=["x", "echo"]) as ws:
        show("open", ws.subprotocol, *(one.name for one in ws.protocol.extensions))
        await (await ws.ping(b"p"))
        show("pong p")
        for message in ("h\u00e9llo", bytes([7]) * 300000):
            await ws.send(message)
            reply = await ws.recv()
            show("message", kind_of(reply), length_of(reply))
        await ws.close(4001, "bye")
        show("close", ws.close_code, ws.close_reason)


async def server():
    ended = asyncio.Event()

    async def echo(ws):
        try:
            while True:
                message = await ws.recv()
                show("message", kind_of(message), length_of(message))
                await ws.send(message)
        except ConnectionClosed:
            show("close", ws.close_code, ws.close_reason)
            ended.set()

    async with serve(echo, "127.0.0.1", 0, subprotocols=["echo"]) as listener:
        show(listener.sockets[0].getsockname()[1])
        await ended.wait()


asyncio.run(client(sys.argv[2]) if sys.argv[1] == "client" else server())
