"""Preparing a store in the background while it is read: a process that lives no longer than the one it works for."""

import atexit
import logging
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dataservice.config import DataConfig
from dataservice.errors import DataError
from dataservice.store.demand import Demand
from tokenizer.corpus import CorpusConfig
from tokenizer.errors import TokenizerError
from tokenizer.waiting import MARK

if TYPE_CHECKING:
    from tokenizer import Tokenizer

__all__ = ["Ingest"]

ROOT = Path(__file__).resolve().parent.parent
POLL_SECONDS = 0.1
# Exit status of bad input, as of every command.
BAD_INPUT = 2


class Ingest:
    """A child process that prepares the store in folder `output`.

    When another process prepares that store, the child waits, and carries on should that one die. It ends with its
    parent, however that ends. What it says goes to `output`.log.

    `data` says with which workers and, where `ahead_windows` is not 0, how far ahead of its readers it prepares.
    """

    def __init__(self, corpus: CorpusConfig, tokenizer: "Tokenizer", output: Path, data: DataConfig) -> None:
        output.parent.mkdir(parents=True, exist_ok=True)
        self._log = output.with_name(output.name + ".log")
        self._num_read = 0
        artefact = Path(tempfile.mkdtemp(prefix="dyadlm-"), "tokenizer")
        tokenizer.save(artefact)
        request = pickle.dumps((os.getpid(), corpus, artefact, output, data))
        python_path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        with self._log.open("wb") as log:
            # A session of its own: Ctrl-C is for the parent, whose end it learns of soon enough.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "dataservice.ingest"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": python_path},
                start_new_session=True,
            )
        atexit.register(self.close)
        assert self._process.stdin is not None
        # A child that is dead already is `fault`'s to report.
        with suppress(BrokenPipeError), self._process.stdin as stdin:
            stdin.write(request)

    @property
    def process_id(self) -> int:
        """The child's."""
        return self._process.pid

    def fault(self) -> str | None:
        """Why the child ended without completing the store, as one line; None when it did not.

        Whoever asks waits for the child: what it waits for, in turn, is said.
        """
        self._say_waits()
        status = self._process.poll()
        if not status:
            return None
        lines = self._log.read_text(errors="replace").strip().splitlines()
        if status == BAD_INPUT and lines:
            return lines[-1]
        return f"the process that prepares documents must end well, got exit status {status}; see {self._log}"

    def _say_waits(self) -> None:
        """Logs the last new line of the child's about what it waits for."""
        with self._log.open("rb") as log:
            log.seek(self._num_read)
            lines = log.read().rpartition(b"\n")
        self._num_read += len(lines[0] + lines[1])
        waits = [line for line in lines[0].decode(errors="replace").splitlines() if line.startswith(MARK)]
        if waits:
            logging.getLogger(__name__).warning(waits[-1])

    def close(self) -> None:
        """Ends the child; what it finished stays, and the next one carries on."""
        atexit.unregister(self.close)
        self._process.kill()
        self._process.wait()


def main() -> int:
    """Prepares what the parent asks for on standard input."""
    parent, corpus, artefact, output, data = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_die_with, args=(parent,), daemon=True).start()
    from tokenizer import Tokenizer

    try:
        tokenizer = Tokenizer.load(artefact)
        shutil.rmtree(artefact.parent)
        prepare_ahead(corpus, tokenizer, output, data)
    except (DataError, TokenizerError) as error:
        print(error, file=sys.stderr)
        return BAD_INPUT
    return 0


def prepare_ahead(corpus: CorpusConfig, tokenizer: "Tokenizer", output: Path, data: DataConfig) -> None:
    """Prepares the store, no further ahead of its readers than `data` allows."""
    from dataservice.preparation import prepare

    is_bounded = data.ahead_windows and data.window_shards
    demand = Demand(output, data.window_shards, data.ahead_windows) if is_bounded else None
    prepare(
        corpus,
        tokenizer,
        output,
        workers=data.workers,
        executor=data.executor,
        announce=lambda line: print(line, flush=True),
        wait=True,
        is_wanted=demand.wants if demand is not None else lambda shard: True,
    )
    if demand is not None:
        demand.close()


def _die_with(parent: int) -> None:
    # An orphan gets another parent at once; workers, in turn, watch this process.
    while os.getppid() == parent:
        time.sleep(POLL_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
