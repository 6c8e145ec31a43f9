"""Processes of one run end together: what one of them fails at, the others say and end with the same code."""

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from training.exits import EXIT_STALLED

KEY = "dyadlm/failure"
INTERVAL = 1.0
"""Seconds between two looks at whether another process has failed."""
_ending = threading.Event()


def watch_companions() -> None:
    """Look now and then, in a thread, whether another process has failed; if so, end this one with its line and code.

    Without this, the others wait for it until jax gives it up for lost, and end in a stack of C++.
    """

    def watch() -> None:
        while (client := _client()) is not None and not _ending.wait(INTERVAL):
            with suppress(Exception):  # there is no failure, or this process is ending
                failure = json.loads(client.key_value_try_get(KEY))
                _end(f"error: process {failure['process']} ended: {failure['line']}", failure["code"])

    threading.Thread(target=watch, daemon=True).start()


def end_together(line: str, code: int) -> int:
    """Tell the other processes, if there are any, how this one ends, and end it; otherwise return the code."""
    client = _client()
    if client is None:
        return code
    _ending.set()
    from jax._src import distributed

    process = distributed.global_state.process_id  # jax.process_index() may wait for the others
    with suppress(Exception):  # the coordinator may be gone
        client.key_value_set(KEY, json.dumps({"process": process, "line": line, "code": code}), allow_overwrite=True)
    if process == 0:  # the coordinator: the others read from it
        time.sleep(3 * INTERVAL)
    return _end("", code)


@contextmanager
def patience(seconds: float, waited_for: str, setting: str) -> Iterator[None]:
    """End this process with a line when the block takes longer, from a thread: jax would end it in a stack of C++."""
    line = f"error: {waited_for} must come within {setting}={seconds:g} seconds, got no answer; "
    mend = f"check that every process was started and can reach the coordinator, or raise {setting}"
    timer = threading.Timer(seconds, _end, (line + mend, EXIT_STALLED))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _client():
    """The connection with the coordinator of the run; None for a run of one process."""
    if "jax" not in sys.modules:
        return None
    from jax._src import distributed

    return distributed.global_state.client


def _end(line: str, code: int) -> int:
    """End at once: at a usual end, jax waits for the other processes first."""
    with suppress(OSError):
        sys.stdout.flush()
    if line:
        os.write(2, f"{line}\n".encode())
    os._exit(code)
