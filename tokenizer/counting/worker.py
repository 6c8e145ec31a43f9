"""What a process of `processes` does: count batches that come in, and give a part when asked."""

import os
import pickle
import sys

from tokenizer.counting.counter import Counter
from tokenizer.counting.parts import Failure
from tokenizer.errors import TokenizerError

__all__ = ["serve"]


def serve(pattern: str) -> None:
    """Read batches from stdin; write a part to stdout for each None, or a failure, which is the end."""
    # What libraries may print goes to stderr.
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
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
