"""What a process of `processes` does: count batches that come in, and give a part when asked."""

import ctypes
import os
import pickle
import signal
import sys

from tokenizer.counting.counter import Counter
from tokenizer.counting.parts import Failure
from tokenizer.errors import TokenizerError

__all__ = ["serve"]


PR_SET_PDEATHSIG = 1


def serve(descriptor: int, parent: int) -> None:
    """Read the pattern and batches from stdin; write a part for each None, or a failure, which is the end.

    descriptor: where parts are written. parent: the id of the process that started this one.
    """
    _end_with_parent(parent)
    requests, replies = sys.stdin.buffer, os.fdopen(descriptor, "wb")
    try:
        pattern = pickle.load(requests)
    except EOFError:
        return
    counter = Counter(pattern)
    while True:
        try:
            batch = pickle.load(requests)
        except (EOFError, pickle.UnpicklingError):  # nobody is there to ask for more
            return
        if batch is not None:
            try:
                counter.add(batch)
                continue
            except TokenizerError as error:
                reply = Failure(batch.number, error)
        else:
            reply, counter = counter.part(), Counter(pattern)
        pickle.dump(reply, replies, pickle.HIGHEST_PROTOCOL)
        replies.flush()
        if isinstance(reply, Failure):
            return


def _end_with_parent(parent: int) -> None:
    """Ask Linux to kill this process when who started it has ended, even in the middle of an expression."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:  # it had ended before that was asked
            os._exit(1)
