"""The corpus of the garden for Python: reads corpus.txt or responses.txt, whose format README.md describes."""

import os
import re

NEXT = b"GET /next HTTP/1.1\r\nHost: x\r\n\r\n"
FOLDER = os.path.dirname(os.path.abspath(__file__))
_ESCAPES = {"r": "\r", "n": "\n", "t": "\t", "\\": "\\", "{": "{"}
_PART = re.compile(r"\{(\d+)\*((?:[^}\\]|\\.)*)\}|\\x([0-9a-f]{2})|\\(.)|([^\\{]+)")


class Case:
    def __init__(self, kind, name):
        self.kind, self.name, self.data, self.want = kind, name, b"", None


def unescape(text):
    out = []
    for count, repeated, code, escape, plain in _PART.findall(text):
        if count:
            out.append(unescape(repeated) * int(count))
        elif code:
            out.append(bytes([int(code, 16)]))
        elif escape:
            out.append(_ESCAPES[escape].encode())
        else:
            out.append(plain.encode())
    return b"".join(out)


def read(name="corpus.txt"):
    """Returns the cases, in order: `kind` (the class), `name`, `data` (without NEXT), `want` (the outcome in lio)."""
    cases, kind = [], None
    with open(os.path.join(FOLDER, name), encoding="ascii") as file:
        for line in file:
            mark, text = line[:2], line[2:].rstrip("\n")
            if mark == "# ":
                kind = text
            elif mark == "= ":
                cases.append(Case(kind, text))
            elif mark == "> ":
                cases[-1].data = unescape(text)
            elif mark == "< ":
                cases[-1].want = text
    return cases
