"""Checkpoints of a run: model, optimizer and position, saved asynchronously by orbax, only ever read when committed."""

from pathlib import Path
from typing import Any, NamedTuple

import orbax.checkpoint as ocp

from training.errors import CheckpointError


class Position(NamedTuple):
    """Where a run is, and over what: everything that a resumed run must share with the saved one."""

    step: int
    """Steps taken."""
    tokens: int
    """Real targets trained on."""
    data: str
    """Digest of the shards of the windows up to the step's own."""
    schedule: str
    """Digest of the curriculum, the lengths and the seed."""
    tokenizer: str
    """Fingerprint of the tokenizer."""
    model: str
    """The architecture, one `name=value` after another."""


ADVICE = {
    "data": "the store was changed; restore it, or start another run with train.run=...",
    "schedule": "the data settings or the seed were changed; undo that, or start another run with train.run=...",
    "tokenizer": "the store was made with another tokenizer; use the first, or start another run with train.run=...",
    "model": "the model settings were changed; undo that, or start another run with train.run=...",
}


class Checkpoints:
    """The checkpoints/ folder of a run; STEP/ holds `state` and `position`."""

    def __init__(self, folder: Path, *, keep: int):
        options = ocp.CheckpointManagerOptions(max_to_keep=keep, enable_async_checkpointing=True)
        self._manager = ocp.CheckpointManager(folder.absolute(), options=options)
        self._folder = folder

    def latest_step(self) -> int | None:
        """The newest committed step, or None."""
        return self._manager.latest_step()

    def read_position(self, step: int) -> Position:
        """The position saved with a step, without its arrays."""
        saved = self._manager.restore(step, args=ocp.args.Composite(position=ocp.args.JsonRestore())).position
        return Position(**saved)

    def restore(self, step: int, abstract_state: Any) -> Any:
        """Read a step's state into the shapes, dtypes and shardings of `abstract_state`.

        Raises:
            CheckpointError: the files are damaged or belong to another model.
        """
        try:
            arguments = ocp.args.Composite(state=ocp.args.StandardRestore(abstract_state))
            return self._manager.restore(step, args=arguments).state
        except (ValueError, OSError, KeyError) as error:
            raise CheckpointError(
                f"checkpoint must be whole and of this model, got {self._folder / str(step)} "
                f"({str(error).splitlines()[0]}); delete that folder to go on from an earlier step"
            ) from error

    def save(self, state: Any, position: Position) -> None:
        """Start saving; arrays are copied first, so the next step may reuse them. A saved step is left as it is."""
        if position.step in self._manager.all_steps():
            return
        items = ocp.args.Composite(state=ocp.args.StandardSave(state), position=ocp.args.JsonSave(position._asdict()))
        self._manager.save(position.step, args=items)

    def close(self) -> None:
        """Wait until everything is durable."""
        self._manager.wait_until_finished()
        self._manager.close()


def check_position(saved: Position, current: Position) -> None:
    """Refuse to resume over other data, another curriculum, tokenizer or model.

    Raises:
        CheckpointError: names what differs, both values and how to mend it.
    """
    for name, advice in ADVICE.items():
        was, now = getattr(saved, name), getattr(current, name)
        if was != now:
            raise CheckpointError(f"{name} must be that of the checkpoint, {was}, got {now}; {advice}")
