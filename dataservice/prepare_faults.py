"""What to do about input shards that cannot be prepared: end at once, or finish the others first and then end.

A store is a prefix of its corpus, and a function of it alone. A shard that is left out because its worker was killed,
or because a server was away, would be neither; so it is never left out, only put off.
"""

import errno
import resource
from collections.abc import Iterable, Iterator, Sequence

from dataservice.errors import IngestError, StoreError
from dataservice.executors import Failure
from dataservice.prepare_shard import PreparedShard, ShardTask

__all__ = ["SetAside", "describe_fault"]

# Failures in a row that speak of the machine or the network, and no longer of the shards.
MAX_IN_A_ROW = 10
NAMED = 5


class SetAside:
    """Sorts the outcomes of `tasks`, as they come in order, into shards to commit and shards set aside."""

    def __init__(self, tasks: Sequence[ShardTask]) -> None:
        self._tasks = iter(tasks)
        self._lines: list[str] = []
        self._in_a_row = 0
        self._last: Exception | None = None

    def sift(self, outcomes: Iterable[PreparedShard | Failure]) -> Iterator[PreparedShard]:
        """The shards that can be committed: those before the first that was set aside."""
        for outcome in outcomes:
            task = next(self._tasks)
            if isinstance(outcome, PreparedShard):
                self._in_a_row = 0
                if not self._lines:
                    yield outcome
                continue
            self._in_a_row += 1
            self._lines.append(f"{task.shard.name} ({outcome.error})")
            self._last = fatal_error(task, outcome)
            if self._last is not None:
                return

    def refuse_at_once(self) -> None:
        """Raises what must not wait: the first failure, unless `on_error="skip"`, a store that cannot be written."""
        if self._last is not None:
            raise self._last
        if self._in_a_row == MAX_IN_A_ROW:
            self.refuse()

    def refuse(self) -> None:
        """Raises IngestError when shards were set aside, and names them."""
        if not self._lines:
            return
        more = f" and {len(self._lines) - NAMED} more" if len(self._lines) > NAMED else ""
        raise IngestError(
            f"input shards must become shards of the store, got {len(self._lines)} set aside: "
            f"{'; '.join(self._lines[:NAMED])}{more}; mend these and run again: all that are finished are kept"
        )


def describe_fault(error: OSError) -> str:
    """What the system says of a write, with the file where it is known, and the limit that it broke."""
    place = f": {error.filename}" if error.filename else ""
    if error.errno == errno.EFBIG:
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        return f"a file over the limit of {limit} bytes on the size of files (ulimit -f){place}"
    return f"{error.strerror or error}{place}"


def fatal_error(task: ShardTask, failure: Failure) -> Exception | None:
    """What a failure raises at once; None when the shard is set aside."""
    error = failure.error
    if isinstance(error, OSError | StoreError):
        return error
    if task.corpus.on_error == "skip":
        return None
    if isinstance(error, IngestError):
        return IngestError(
            f"input shard {task.shard.name} must become a shard of the store, got {error} in {failure.tries} tries; "
            "use fewer --workers, or corpus.on_error=skip to finish the others first"
        )
    return error
