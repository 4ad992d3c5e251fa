"""Python's http.client and h11 for responses.py: `python3 client_python.py h11|http.client URL COUNT` requests /case/N
and then /next/N for each case, and prints the outcomes."""

import http.client
import re
import socket
import sys
import urllib.parse

kind, url, count = sys.argv[1:]
host = urllib.parse.urlsplit(url)
ADDRESS = (host.hostname, host.port)


def shown(status, body):
    text = re.sub(r"[^ -~]|\\", lambda m: "\\x%02x" % ord(m.group()), body.decode("latin1"))
    return "%d [%s]" % (status, text) if body else str(status)


class HttpClient:
    """A connection that http.client opens again when it has to."""

    def __init__(self):
        self.connection = http.client.HTTPConnection(*ADDRESS, timeout=1)

    def get(self, path):
        try:
            self.connection.request("GET", path)
            response = self.connection.getresponse()
            if response.status == 101:
                raise http.client.HTTPException
            return response.status, response.read()
        except (OSError, http.client.HTTPException, ValueError, OverflowError):
            self.connection.close()
            return None

    def close(self):
        self.connection.close()


class H11Client:
    """A connection that is opened again if h11 does not permit another request."""

    def __init__(self):
        self.socket = None

    def close(self):
        if self.socket:
            self.socket.close()
        self.socket = None

    def get(self, path):
        import h11

        try:
            if not self.socket:
                self.socket, self.conn = socket.create_connection(ADDRESS, 1), h11.Connection(h11.CLIENT)
            request = h11.Request(method="GET", target=path, headers=[("Host", "x")])
            self.socket.sendall(self.conn.send(request) + self.conn.send(h11.EndOfMessage()))
            body = b""
            while True:
                event = self.conn.next_event()
                if event is h11.NEED_DATA:
                    self.conn.receive_data(self.socket.recv(65536))
                elif isinstance(event, h11.Response):
                    status = event.status_code
                elif isinstance(event, h11.Data):
                    body += bytes(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    break
                elif event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                    self.close()
                    return None
            if self.conn.our_state is h11.DONE and self.conn.their_state is h11.DONE:
                self.conn.start_next_cycle()
            else:
                self.close()
            return status, body
        except (OSError, h11.ProtocolError):
            self.close()
            return None


for at in range(int(count)):
    client = H11Client() if kind == "h11" else HttpClient()
    first = client.get("/case/%d" % at)
    second = client.get("/next/%d" % at)
    if not second:
        # The connection has failed, as a program notices; the next request uses another one.
        second = client.get("/next/%d" % at)
    print("%d\t%s\t%s" % (at, shown(*first) if first else "error", shown(*second)[5:-1] if second else "error"))
    client.close()
