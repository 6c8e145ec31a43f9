"""Where a run's checkpoints lie, and which of them are whole."""

from pathlib import Path

import orbax.checkpoint as ocp
from etils import epath

from training.errors import CheckpointError
from training.run import Run
from training.settings import TrainConfig

__all__ = ["checkpoint_folder", "claim_folder", "committed_steps", "find_position", "resumed_from"]


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


def claim_folder(run: Run, config: TrainConfig) -> None:
    """Make sure that a folder of checkpoints is this run's, before a new run goes on from another's or deletes them.

    A folder outside RUN names its run in the file `owner`, as long as that run is there; a run that was moved takes its
    checkpoints over. By one process of a run, which has locked it.

    Raises:
        CheckpointError: the checkpoints are another run's, cannot be written, or the newest is one to start from only.
    """
    folder, is_new = checkpoint_folder(run, config), not (run.folder / "config.yaml").exists()
    if config.checkpoints is not None:
        _own(folder, run, is_new=is_new)
    if steps := committed_steps(folder):
        find_position(folder, steps[-1])


def find_position(folder: epath.Path, step: int) -> epath.Path:
    """The position of a checkpoint, which weights from elsewhere have none of.

    Raises:
        CheckpointError: there is none.
    """
    place = folder / str(step)
    if (place / "position").exists():
        return place / "position"
    if step == 0:
        mend = "start another run from imported weights with train.initial_weights=..."
    else:
        mend = f"it is damaged: delete that folder to {resumed_from(folder, step)}"
    raise CheckpointError(
        f"checkpoint must be whole and of a trained run, got {place} without its folder position; {mend}"
    )


def resumed_from(folder: epath.Path, step: int) -> str:
    """What a run does when the checkpoint of a step is gone."""
    earlier = [other for other in committed_steps(folder) if other < step]
    return f"go on from step {earlier[-1]}" if earlier else "start again"


def _own(folder: epath.Path, run: Run, *, is_new: bool) -> None:
    """Write who owns a folder; a new run has taken none of the steps in it."""
    path, mine = folder / "owner", str(run.folder.absolute())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        others = committed_steps(folder) if is_new else []
        owner = path.read_text().strip() if path.exists() else ""
        is_taken = owner != mine and bool(owner) and Path(owner).exists()
        if not is_taken and not others:
            path.write_text(mine + "\n")
            return
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"train.checkpoints must be a folder that can be written, got {folder} ({error}); choose another"
        ) from None
    whose = f"run {owner}" if owner else f"another run (steps {', '.join(map(str, others))})"
    raise CheckpointError(
        f"train.checkpoints must be of {run.folder} alone, got {folder} of {whose}; choose another folder, or go on "
        "with that run by its train.run=..."
    )
