"""tlslite-ng as a client of tests/peers/tls_server.lua, also with malformed messages; and a scan of sslyze.

Run by tests/long/tls_peers.sh with the port and the file of the authority. The last line is "N passed, M failed".
"""

import os
import socket
import subprocess
import sys

from tlslite.api import HandshakeSettings, TLSConnection

port, ca = int(sys.argv[1]), sys.argv[2]
passed = failed = 0


def check(name, found, wanted):
    global passed, failed
    if found == wanted:
        passed += 1
    else:
        failed += 1
        print(f"FAILED {name}: got {found!r}, want {wanted!r}")


def connect():
    raw = socket.create_connection(("127.0.0.1", port))
    raw.settimeout(15)
    return raw


def get(version, session=None, **options):
    settings = HandshakeSettings()
    settings.minVersion = settings.maxVersion = version
    for name, value in options.items():
        setattr(settings, name, value)
    c = TLSConnection(connect())
    c.handshakeClientCert(session=session, settings=settings, serverName="localhost")
    c.send(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    data = b""
    while piece := c.recv(65536):
        data += piece
    return data.split(b"\r\n\r\n")[-1].decode(), c


for version, name in (((3, 3), "1.2"), ((3, 4), "1.3")):
    text, c = get(version)
    check(f"TLS {name}", (text, c.resumed), (f"{name} false", False))
    text, c = get(version, c.session)
    check(f"TLS {name}, resumed", (text, c.resumed), (f"{name} true", True))
    for group in ("secp256r1", "secp384r1", "x25519"):
        # The curve of the certificate must be in the list, too.
        text, _ = get(version, eccCurves=[group, "secp256r1"], keyShares=[group])
        check(f"TLS {name} with {group}", text, f"{name} false")
    # The server asks for another key share (RFC 8446 section 4.1.4).
    text, _ = get(version, eccCurves=["secp521r1", "secp256r1"], keyShares=["secp521r1"])
    check(f"TLS {name} after a HelloRetryRequest", text, f"{name} false")
    for cipher in ("aes256gcm", "aes128gcm", "chacha20-poly1305"):
        text, _ = get(version, cipherNames=[cipher])
        check(f"TLS {name} with {cipher}", text, f"{name} false")

# Malformed messages: the server sends an alert, or closes the connection; other clients are served.
HELLO = b"\x16\x03\x01"
for what, message in {
    "a record that is too long": HELLO + b"\xff\xff" + b"a" * 70000,
    "an empty handshake record": HELLO + b"\x00\x00" * 3,
    "an unknown content type": b"\x63\x03\x03\x00\x01a",
    "data before the handshake": b"\x17\x03\x03\x00\x05hello",
    "a message without a hello": HELLO + b"\x00\x04\x02\x00\x00\x00",
    "a hello of 16 MiB": HELLO + b"\x40\x00\x01\xff\xff\xff" + b"a" * 16380,
    "a hello with a wrong length": HELLO + b"\x00\x08\x01\x00\x00\x04\x03\x03\x00\x00",
    "a fatal alert": b"\x15\x03\x03\x00\x02\x02\x28",
    "many empty records": (HELLO + b"\x00\x00") * 2000,
}.items():
    c = connect()
    ended = False
    try:
        c.sendall(message)
        c.shutdown(socket.SHUT_WR)
        while c.recv(65536):
            pass
        ended = True
    except TimeoutError:
        pass
    except OSError:
        # The server has closed the connection while the message was sent.
        ended = True
    c.close()
    check(what, ended, True)
check("a request after malformed messages", get((3, 4))[0], "1.3 false")

SCANS = "certinfo tlsv1 tlsv1_1 tlsv1_2 tlsv1_3 compression openssl_ccs heartbleed reneg fallback resum robot ems"
scan = subprocess.run(
    [os.path.dirname(sys.executable) + "/sslyze", "--certinfo_ca_file", ca, "--mozilla_config=disable"]
    + ["--" + name for name in SCANS.split()] + [f"localhost:{port}"],
    capture_output=True, text=True, timeout=200)
for line in (
    "TLS_FALLBACK_SCSV:                 OK - Supported",
    "OK - Compression disabled",
    "OK - Not vulnerable to OpenSSL CCS injection",
    "OK - Not vulnerable to Heartbleed",
    "Client Renegotiation DoS Attack:   OK - Not vulnerable",
    "Secure Renegotiation:              OK - Supported",
    "Supplied CA file CA Store (N/A):   OK - Certificate is trusted",
):
    check("sslyze: " + line, line in scan.stdout, True)
check("sslyze: vulnerabilities", [line for line in scan.stdout.splitlines() if "VULNERABLE" in line], [])
check("sslyze: errors", [line for line in scan.stdout.splitlines() if "Error when running" in line], [])

print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
