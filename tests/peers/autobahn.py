"""Runs Autobahn's cases with the package kosoku, and prints "ok" or "not ok" and the number of each case.

Arguments: "client" and the port of the server under test; or "server" and the file to which the port of the server for
the client under test is written. Used by tests/long/websocket_autobahn.sh.
"""

import asyncio
import importlib
import os
import sys

import kosoku
from kosoku import _caseindex

# The cases of these groups have large or very many messages, and take most of the time.
EXCLUDED = ["9.*", "12.*", "13.*"] if os.environ.get("AUTOBAHN_SHORT") else None


def with_bytes(on_message):
    """Kosoku 0.1.0 passes received messages as str, but the cases of the groups 12 and 13 need bytes."""

    def wrapper(case, message, binary):
        return on_message(case, message.encode("latin-1") if isinstance(message, str) else message, binary)

    return wrapper


_caseindex.initialize_shims()
compression = importlib.import_module("case12_x_x")
for group in (compression.Case12_X_X, compression.Case13_X_X):
    for one in group:
        one.onMessage = with_bytes(one.onMessage)


async def results():
    mode, where = sys.argv[1:3]
    try:
        if mode == "client":
            return await kosoku.run_fuzzingclient(f"ws://127.0.0.1:{where}/", None, EXCLUDED, concurrency=4)
        async with kosoku.run_fuzzingserver(None, EXCLUDED, host="127.0.0.1", port=0) as server:
            with open(where + ".new", "w") as file:
                file.write(str(server.port))
            os.rename(where + ".new", where)
            return await server.get_result()
    except kosoku.FailureError as failure:
        return failure.results


for case in asyncio.run(results()):
    close = case.behavior_close.value
    # Without compression, the cases of groups 12 and 13 are not carried out.
    is_left_out = case.behavior.value == "UNIMPLEMENTED" and case.case_id.split(".")[0] in ("12", "13")
    state = "ok" if case.passed or is_left_out else "not ok"
    print(f"{state} {case.case_id}: {case.behavior.value}, {close}: {case.result} {case.result_close}")
