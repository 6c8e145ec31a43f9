"""Checkpoints of a run: model, optimizer and position, saved asynchronously by orbax, only ever read when committed."""

import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp
from etils import epath

from training import checksums
from training.checkpoint_folder import committed_steps, find_position, resumed_from
from training.errors import CheckpointError
from training.position import Position, check_position
from training.settings import TrainConfig
from training.step import Recipe, State, abstract_state

_SUMS = "checksums"
"""The item of a checkpoint with the sums of its other parts, by their names."""


class Checkpoints:
    """The checkpoints of a run; STEP/ holds `state` and `position`.

    Args:
        folder: Where, made when missing.
        config: How many are kept (`keep_checkpoints`, `keep_every`).
        position: (step, tokens) -> the position of this run there.
        release: Takes the oldest of the latest `keep_checkpoints` steps, whenever there is another checkpoint. Those
            that `keep_every` keeps for ever hold nothing back: they are for evaluation and export.
    """

    def __init__(
        self,
        folder: epath.Path,
        config: TrainConfig,
        *,
        position: Callable[[int, int], Position],
        release: Callable[[int], None],
    ):
        options = ocp.CheckpointManagerOptions(
            max_to_keep=config.keep_checkpoints,
            keep_period=config.keep_every or None,
            cleanup_tmp_directories=True,  # of saves that were killed
            enable_async_checkpointing=True,
        )
        quiet()
        self._folder, self._keep = folder, config.keep_checkpoints
        with self._writing():
            self._manager = ocp.CheckpointManager(folder, options=options)
        self._position = position
        self._release = release

    def restore_or_start(self, recipe: Recipe, start: Callable[[], State]) -> tuple[State, int, int]:
        """(state, step, tokens) of the newest committed step, on the mesh of the recipe; `start()` when there is none.

        Raises:
            CheckpointError: the checkpoint is damaged, or of other data, another curriculum, tokenizer or model.
        """
        step = self._manager.latest_step()
        if step is None:
            return start(), 0, 0
        sums = self._restore_item(step, _SUMS) if (self._folder / str(step) / _SUMS).exists() else None
        saved = self._restore_position(step, sums)
        check_position(saved, self._position(step, saved.tokens))
        arguments = ocp.args.Composite(state=ocp.args.StandardRestore(abstract_state(recipe)))
        with self._reading(step):
            restored: Any = self._manager.restore(step, args=arguments)
            state = jax.block_until_ready(restored.state)
            _check_sums(sums, checksums.sum_arrays(state))
        return state, step, saved.tokens

    def save(self, state: State, step: int, tokens: int) -> None:
        """Start saving; arrays are copied first, so the next step may reuse them. A saved step is left as it is.

        Raises:
            CheckpointError: this checkpoint, or the one before it, cannot be written.
        """
        if step in self._manager.all_steps():
            return
        position = self._position(step, tokens)._asdict()
        with self._writing():
            self._manager.save(step, args=items_of(state, position))
        if committed := committed_steps(self._folder):
            self._release(committed[-self._keep :][0])

    def check(self) -> None:
        """Look whether the last save has come to its end, and how, without waiting for one under way.

        Raises:
            CheckpointError: it could not be written.
        """
        if not self._manager.is_saving_in_progress():
            with self._writing():
                self._manager.wait_until_finished()  # raises what the thread that wrote ended with

    def close(self) -> None:
        """Wait until everything is durable.

        Raises:
            CheckpointError: the last checkpoint could not be written.
        """
        with self._writing():
            self._manager.wait_until_finished()
            self._manager.close()

    def _restore_position(self, step: int, sums: dict[str, int] | None) -> Position:
        find_position(self._folder, step)
        values = self._restore_item(step, "position")
        with self._reading(step):
            _check_sums(sums, {"position": checksums.sum_values(values)})
            return Position(**values)

    def _restore_item(self, step: int, name: str) -> dict[str, Any]:
        with self._reading(step):
            return self._manager.restore(step, args=ocp.args.Composite(**{name: ocp.args.JsonRestore()}))[name]

    @contextmanager
    def _reading(self, step: int) -> Iterator[None]:
        with reading(self._folder / str(step), f"delete that folder to {resumed_from(self._folder, step)}"):
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Say in one line what the system or orbax says of a place that cannot be written."""
        try:
            yield
        except (OSError, ValueError, RuntimeError) as error:
            steps: list[int] = []
            with suppress(OSError):
                steps = committed_steps(self._folder)
            mend = f"it goes on from step {steps[-1]}" if steps else "it starts again"
            raise CheckpointError(
                f"checkpoints must be written whole, got {one_line(error)} in {self._folder}; make room there and run "
                f"the same command again: {mend}"
            ) from error


@contextmanager
def reading(place: epath.Path, mend: str) -> Iterator[None]:
    """Turn whatever damage makes orbax say into one line that names the place and how to mend it."""
    try:
        yield
    except (MemoryError, CheckpointError):
        raise
    except Exception as error:
        raise CheckpointError(
            f"checkpoint must be whole and of this model, got {place} ({one_line(error)}); {mend}"
        ) from error


def items_of(state: State, position: dict[str, Any] | None = None) -> ocp.args.Composite:
    """What a checkpoint is made of: the state, its position (none: imported weights), and the sums of both."""
    sums = checksums.sum_arrays(state)
    items: dict[str, Any] = {"state": ocp.args.StandardSave(state)}
    if position is not None:
        sums["position"] = checksums.sum_values(position)
        items["position"] = ocp.args.JsonSave(position)
    return ocp.args.Composite(**items, **{_SUMS: ocp.args.JsonSave(sums)})


def _check_sums(saved: dict[str, int] | None, now: dict[str, int]) -> None:
    """Raise ValueError naming the first part that is not what was saved, if sums of it were."""
    if saved is not None and (name := checksums.differing(saved, now)) is not None:
        raise ValueError(f"{name} is not what was saved: its checksum differs")


def one_line(error: BaseException) -> str:
    """The first line of what an error's first cause says, without how tensorstore was asked, or its kind."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return re.split(r" \[(?:tensorstore_spec|source locations)", lines[0])[0] if lines else type(error).__name__


def quiet() -> None:
    """Leave what orbax says of failures, with tracebacks, to the line of our own error.

    When one array fails, the others are given up, each with an error of its own in a thread of tensorstore.
    """
    for name in ("absl", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if not isinstance(sys.unraisablehook, _WithoutGivenUp):
        sys.unraisablehook = _WithoutGivenUp(sys.unraisablehook)


class _WithoutGivenUp:
    """The hook for exceptions that nobody can catch, without those of reads that were given up."""

    def __init__(self, hook: Callable[[Any], object]):
        self._hook = hook

    def __call__(self, unraisable: Any) -> None:
        code = getattr(unraisable.object, "cr_code", None)  # of a coroutine
        is_given_up = code is not None and "orbax" in code.co_filename
        if not is_given_up and str(unraisable.exc_value) != "Event loop is closed":
            self._hook(unraisable)


def read_position(place: epath.Path, mend: str) -> Position | None:
    """The position of a checkpoint (CHECKPOINTS/STEP), which weights from elsewhere have none of.

    Raises:
        CheckpointError: it is damaged.
    """
    if not (place / "position").exists():
        return None
    with reading(place, mend), ocp.Checkpointer(ocp.JsonCheckpointHandler()) as reader:
        return Position(**reader.restore(place / "position"))


def read_origin(place: epath.Path) -> tuple[str | None, int | None]:
    """Fingerprint of the tokenizer, and rows of the embedding, that a checkpoint is of; None for what cannot be read.

    Weights from elsewhere do not say of which tokenizer they are.
    """
    quiet()
    fingerprint = rows = None
    with suppress(Exception), ocp.Checkpointer(ocp.JsonCheckpointHandler()) as of_position:
        fingerprint = of_position.restore(place / "position")["tokenizer"]
    with suppress(Exception), ocp.PyTreeCheckpointer() as reader:
        rows = reader.metadata(place / "state").item_metadata.tree["params"]["embedding"].shape[0]
    return fingerprint, rows


def restore_params(place: epath.Path, shapes: Any, mend: str) -> Any:
    """The parameters of a checkpoint alone, without the optimizer's state; their moving average where there is one.

    Args:
        place: CHECKPOINTS/STEP.
        shapes: Nested dict of ShapeDtypeStruct: with another dtype or sharding than they were saved in, parameters are
            converted, and read straight to where they belong.
        mend: What to do about a damaged one.

    Raises:
        CheckpointError: it is damaged, of other shapes, or not finite.
    """
    quiet()
    with reading(place, mend), ocp.PyTreeCheckpointer() as reader:
        metadata = reader.metadata(place / "state").item_metadata
        if metadata is None:
            raise ValueError("its _METADATA, _sharding or manifest.ocdbt cannot be read")
        names = metadata.tree
        wanted = {"ema" if "ema" in names else "params": shapes}
        restore_args = ocp.checkpoint_utils.construct_restore_args(wanted)
        arguments = ocp.args.PyTreeRestore(wanted, restore_args=restore_args, partial_restore=True)
        read = jax.block_until_ready(reader.restore(place / "state", arguments))
        if (place / _SUMS).exists():
            with ocp.Checkpointer(ocp.JsonCheckpointHandler()) as of_sums:
                sums = of_sums.restore(place / _SUMS)
            # What was converted has other bits than what was saved.
            as_saved = jax.tree.map(lambda leaf: leaf if leaf.dtype == jnp.float32 else None, read)
            _check_sums(sums, checksums.sum_arrays(as_saved))
    if (name := checksums.first_not_finite(read)) is not None:
        raise CheckpointError(f"weights must be finite, got {place} whose {name} is not; {mend}")
    (params,) = read.values()
    return params
