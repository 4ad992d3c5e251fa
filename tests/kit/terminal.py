"""Runs a command on a terminal of its own, for tests/kit/terminal.lua.

usage: terminal.py STEPS COMMAND...

STEPS is a file with one JSON list per line: ["send", TEXT] types a text; ["bytes", HEX] types bytes; ["expect", TEXT] waits until the command has
written the text after the last one; ["signal", NAME] sends a signal; The output, without
escape sequences, goes to standard output. The last line is the exit code (or the negative number of a signal), and
whether the terminal echoes and reads whole lines again.
"""

import fcntl
import json
import os
import pty
import re
import select
import signal
import sys
import termios
import time

SECONDS = 40
ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()=>].?")


class Terminal:
    def __init__(self, command):
        # This process keeps the command's side open, to read the mode of the terminal after the command has ended.
        self.descriptor, self.other_side = pty.openpty()
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(self.other_side, termios.TIOCSCTTY, 0)
            for number in range(3):
                os.dup2(self.other_side, number)
            os.closerange(3, 256)
            os.execvp(command[0], command)
        self.raw = b""
        self.seen = 0
        self.status = None

    def text(self):
        return ESCAPES.sub(b"", self.raw).replace(b"\r", b"")

    def read(self, seconds):
        """Reads what the command has written. Returns whether there was anything."""
        if not select.select([self.descriptor], [], [], seconds)[0]:
            return False
        self.raw += os.read(self.descriptor, 65536)
        return True

    def has_ended(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if pid else None
        return self.status is not None

    def give_up(self, problem):
        print(self.text().decode(errors="replace"))
        print(problem)
        if not self.has_ended():
            os.kill(self.pid, signal.SIGKILL)
        sys.exit(99)

    def expect(self, wanted):
        deadline = time.monotonic() + SECONDS
        while True:
            found = self.text().find(wanted, self.seen)
            if found >= 0:
                self.seen = found + len(wanted)
                return
            ended = self.has_ended()
            if not self.read(0.2) and (ended or time.monotonic() > deadline):
                self.give_up("the terminal did not show %r after %r" % (wanted, self.text()[: self.seen][-40:]))

    def close(self):
        """Waits for the end of the command. Returns its exit code."""
        deadline = time.monotonic() + SECONDS
        while not self.has_ended():
            self.read(0.02)
            if time.monotonic() > deadline:
                self.give_up("the command did not end")
        while self.read(0):
            pass
        return os.waitstatus_to_exitcode(self.status)


def main():
    steps = [json.loads(line) for line in open(sys.argv[1]) if line.strip()]
    terminal = Terminal(sys.argv[2:])
    for step in steps:
        if step[0] == "bytes":
            os.write(terminal.descriptor, bytes.fromhex(step[1]))
        elif step[0] == "send":
            os.write(terminal.descriptor, step[1].encode())
        elif step[0] == "signal":
            os.kill(terminal.pid, getattr(signal, step[1]))
        else:
            terminal.expect(step[1].encode())
    code = terminal.close()
    mode = termios.tcgetattr(terminal.other_side)[3]
    is_plain = bool(mode & termios.ECHO and mode & termios.ICANON)
    sys.stdout.write(terminal.text().decode(errors="replace"))
    print("\n%d %s" % (code, "plain" if is_plain else "raw"))


main()
