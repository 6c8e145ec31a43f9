"""Run by test_kills.py: a trainer without its model, which logs the digest of every batch and saves states.

What it imports takes seconds, so one process imports it and starts a fork for every line of its input: the process id
of the fork comes back, and when that has ended its exit status. Its argument is a file with a pickled `Request`.
"""

import hashlib
import json
import os
import pickle
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NamedTuple

from dataservice import DataConfig, batches, open_data
from dataservice.errors import DataError
from tokenizer import CorpusConfig, Tokenizer

DIGEST_BYTES = 32
STEPS_PER_STATE = 3


class Request(NamedTuple):
    """What to read; `folder` holds the log, the last state, and `ended` once all is read."""

    folder: Path
    corpus: CorpusConfig
    config: DataConfig
    tokenizer: Tokenizer


def digest(batch: dict[str, Any]) -> bytes:
    arrays = [batch[name].tobytes() for name in ("inputs", "targets", "weights", "segments") if name in batch]
    return hashlib.sha256(repr([batch["step"], batch["length"], *arrays]).encode()).digest()


def read(request: Request) -> None:
    """Read from the last state on; what was logged after it is taken back, as the rows of metrics are."""
    iterator = iter(batches(open_data(request.corpus, request.config, request.tokenizer), request.config))
    saved, step = request.folder / "state", 0
    if saved.exists():
        state = json.loads(saved.read_bytes())
        iterator.set_state(state)
        step = state["step"]
    with (request.folder / "log").open("ab") as log:
        log.truncate(DIGEST_BYTES * step)
        for batch in iterator:
            log.write(digest(batch))
            log.flush()
            if (batch["step"] + 1) % STEPS_PER_STATE == 0:
                partial = saved.with_suffix(".partial")
                partial.write_text(json.dumps(iterator.get_state()))
                partial.replace(saved)
            time.sleep(0.001)
    iterator.close()
    (request.folder / "ended").touch()


def run(request: Request) -> int:
    try:
        read(request)
    except DataError as error:
        print(error, file=sys.stderr, flush=True)
        return 2
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    asked = Request(*pickle.loads(Path(sys.argv[1]).read_bytes()))
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            os._exit(run(asked))
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
