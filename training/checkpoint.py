"""Checkpoints of a run: model, optimizer and position, saved asynchronously by orbax, only ever read when committed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import orbax.checkpoint as ocp

from training.errors import CheckpointError
from training.step import Recipe, State, abstract_state, init_state


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
    """The checkpoints/ folder of a run; STEP/ holds `state` and `position`.

    Args:
        folder: RUN/checkpoints.
        keep: how many of the latest steps to keep.
        position: (step, tokens) -> the position of this run there.
        release: takes the oldest step that may still be resumed from, whenever there is another checkpoint.
    """

    def __init__(
        self, folder: Path, *, keep: int, position: Callable[[int, int], Position], release: Callable[[int], None]
    ):
        options = ocp.CheckpointManagerOptions(max_to_keep=keep, enable_async_checkpointing=True)
        self._manager = ocp.CheckpointManager(folder.absolute(), options=options)
        self._folder = folder
        self._position = position
        self._release = release

    def restore_or_start(self, recipe: Recipe, seed: int) -> tuple[State, int, int]:
        """(state, step, tokens) of the newest committed step, or a fresh state at step 0.

        Raises:
            CheckpointError: the checkpoint is damaged, or of other data, another curriculum, tokenizer or model.
        """
        abstract = abstract_state(recipe)
        step = self._manager.latest_step()
        if step is None:
            shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract)
            init = jax.jit(lambda key: init_state(recipe, key), out_shardings=shardings)
            return init(jax.random.key(seed)), 0, 0
        arguments = ocp.args.Composite(position=ocp.args.JsonRestore())
        saved = Position(**self._restore(step, arguments).position)
        check_position(saved, self._position(step, saved.tokens))
        state = self._restore(step, ocp.args.Composite(state=ocp.args.StandardRestore(abstract))).state
        return state, step, saved.tokens

    def save(self, state: State, step: int, tokens: int) -> None:
        """Start saving; arrays are copied first, so the next step may reuse them. A saved step is left as it is."""
        if step in self._manager.all_steps():
            return
        position = self._position(step, tokens)._asdict()
        items = ocp.args.Composite(state=ocp.args.StandardSave(state), position=ocp.args.JsonSave(position))
        self._manager.save(step, args=items)
        # Committed ones: while it is written, the folder of a step has another name.
        committed = [int(path.name) for path in self._folder.iterdir() if path.name.isdigit()]
        if committed:
            self._release(min(committed))

    def close(self) -> None:
        """Wait until everything is durable."""
        self._manager.wait_until_finished()
        self._manager.close()

    def _restore(self, step: int, arguments: ocp.args.Composite) -> Any:
        try:
            return self._manager.restore(step, args=arguments)
        except (ValueError, OSError, KeyError) as error:
            raise CheckpointError(
                f"checkpoint must be whole and of this model, got {self._folder / str(step)} "
                f"({str(error).splitlines()[0]}); delete that folder to go on from an earlier step"
            ) from error


def check_position(saved: Position, current: Position) -> None:
    """Refuse to resume over other data, another curriculum, tokenizer or model.

    Raises:
        CheckpointError: names what differs, both values and how to mend it.
    """
    for name, advice in ADVICE.items():
        was, now = getattr(saved, name), getattr(current, name)
        if was != now:
            raise CheckpointError(f"{name} must be that of the checkpoint, {was}, got {now}; {advice}")
