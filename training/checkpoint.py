"""Checkpoints of a run: model, optimizer and position, saved asynchronously by orbax, only ever read when committed."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import jax
import orbax.checkpoint as ocp
from etils import epath

from training.errors import CheckpointError
from training.position import Position, check_position
from training.run import Run
from training.settings import TrainConfig
from training.step import Recipe, State, abstract_state


def checkpoint_folder(run: Run, config: TrainConfig) -> epath.Path:
    """The folder of a run's checkpoints: train.checkpoints, or RUN/checkpoints.

    Raises:
        CheckpointError: it is in a cloud, and the package that reaches it is missing.
    """
    if config.checkpoints is None:
        return epath.Path(run.checkpoints.absolute())
    if "://" not in config.checkpoints:
        return epath.Path(config.checkpoints).absolute()
    try:
        folder = epath.Path(config.checkpoints)
        folder.exists()
    except ImportError:
        raise CheckpointError(
            f"train.checkpoints must be a place that can be reached, got {config.checkpoints} without the package "
            "gcsfs; pip install gcsfs, or mount the bucket as a folder"
        ) from None
    return folder


def committed_steps(folder: epath.Path) -> list[int]:
    """The steps of a folder whose checkpoints are whole, ascending; one that was being written is none."""
    return sorted(ocp.utils.checkpoint_steps(folder))


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
        # What orbax says of a failure, with tracebacks, is said in the line of our own error.
        logging.getLogger("absl").setLevel(logging.CRITICAL)
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
        saved = self._restore_position(step)
        check_position(saved, self._position(step, saved.tokens))
        arguments = ocp.args.Composite(state=ocp.args.StandardRestore(abstract_state(recipe)))
        with self._reading(step):
            restored: Any = self._manager.restore(step, args=arguments)
        return restored.state, step, saved.tokens

    def save(self, state: State, step: int, tokens: int) -> None:
        """Start saving; arrays are copied first, so the next step may reuse them. A saved step is left as it is.

        Raises:
            CheckpointError: this checkpoint, or the one before it, cannot be written.
        """
        if step in self._manager.all_steps():
            return
        position = self._position(step, tokens)._asdict()
        items = ocp.args.Composite(state=ocp.args.StandardSave(state), position=ocp.args.JsonSave(position))
        with self._writing():
            self._manager.save(step, args=items)
        if committed := committed_steps(self._folder):
            self._release(committed[-self._keep :][0])

    def close(self) -> None:
        """Wait until everything is durable.

        Raises:
            CheckpointError: the last checkpoint could not be written.
        """
        with self._writing():
            self._manager.wait_until_finished()
            self._manager.close()

    def _restore_position(self, step: int) -> Position:
        if not (self._folder / str(step) / "position").exists():
            raise CheckpointError(
                f"checkpoint must be whole and of a trained run, got {self._folder / str(step)} without a position; "
                "start another run from imported weights with train.initial_weights=..., or delete that folder"
            )
        with self._reading(step):
            arguments = ocp.args.Composite(position=ocp.args.JsonRestore())
            restored: Any = self._manager.restore(step, args=arguments)
            return Position(**restored.position)

    @contextmanager
    def _reading(self, step: int) -> Iterator[None]:
        with reading(self._folder / str(step), "delete that folder to go on from an earlier step"):
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
    except (ValueError, OSError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise CheckpointError(
            f"checkpoint must be whole and of this model, got {place} ({one_line(error)}); {mend}"
        ) from error


def one_line(error: BaseException) -> str:
    """The first line of what an error says, or its kind."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def restore_params(place: epath.Path, shapes: Any, mend: str) -> Any:
    """The parameters of a checkpoint alone, without the optimizer's state; their moving average where there is one.

    Args:
        place: CHECKPOINTS/STEP.
        shapes: Nested dict of ShapeDtypeStruct: with another dtype or sharding than they were saved in, parameters are
            converted, and read straight to where they belong.
        mend: What to do about a damaged one.

    Raises:
        CheckpointError: it is damaged, or of other shapes.
    """
    with reading(place, mend), ocp.PyTreeCheckpointer() as reader:
        names = reader.metadata(place / "state").item_metadata.tree
        wanted = {"ema" if "ema" in names else "params": shapes}
        restore_args = ocp.checkpoint_utils.construct_restore_args(wanted)
        arguments = ocp.args.PyTreeRestore(wanted, restore_args=restore_args, partial_restore=True)
        (params,) = reader.restore(place / "state", arguments).values()
        return jax.block_until_ready(params)
