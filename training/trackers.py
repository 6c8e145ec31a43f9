"""Where rows of metrics go beside metrics.jsonl: TensorBoard events, Weights & Biases, trackio."""

import importlib.util
import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from training.errors import ConfigError, TrainingError
from training.settings import TrainConfig

ID_FILE = "tracking.json"


class Tracker(Protocol):
    """Takes rows of metrics."""

    def log(self, row: Mapping[str, Any]) -> None:
        """Take a row: `step` and named values, of which it keeps the numbers."""
        ...

    def flush(self) -> None:
        """Make durable what was taken, as far as it can."""
        ...

    def close(self) -> None:
        """Flush and end."""
        ...


def check_tracker(config: TrainConfig) -> None:
    """Refuse a tracker whose package is not installed.

    Raises:
        ConfigError: names the extra that brings it.
    """
    if config.track != "none" and importlib.util.find_spec(config.track) is None:
        raise ConfigError(
            f"train.track must name an installed package, got {config.track}; "
            f"pip install -c constraints.txt -e '.[{config.track}]'"
        )


def open_trackers(folder: Path, config: TrainConfig, settings: Mapping[str, Any], restored_step: int) -> list[Tracker]:
    """The trackers that the settings ask for; `settings` are shown beside the run by those that can."""
    trackers: list[Tracker] = []
    if config.tensorboard:
        trackers.append(TensorBoard(folder, restored_step))
    if config.track == "wandb":
        trackers.append(WeightsAndBiases(folder, config.track_project, settings))
    if config.track == "trackio":
        trackers.append(Trackio(folder, config.track_project, settings))
    return trackers


def numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a row but its step.

    >>> numbers({"step": 1, "loss": 2.5, "spike": True, "sample": "text"})
    {'loss': 2.5}
    """
    return {
        name: value
        for name, value in row.items()
        if name != "step" and isinstance(value, int | float) and not isinstance(value, bool)
    }


def run_id(folder: Path) -> str:
    """The name that a run has with its tracker: made once, kept in RUN/tracking.json, so that it goes on there."""
    path = folder / ID_FILE
    if not path.exists():
        beside = path.with_suffix(".tmp")
        beside.write_text(
            json.dumps({"id": f"{folder.resolve().name}-{uuid.uuid4().hex[:8]}"}) + "\n", encoding="utf-8"
        )
        beside.replace(path)
    return json.loads(path.read_text(encoding="utf-8"))["id"]


class TensorBoard:
    """RUN/events.*; rows after the restored step are hidden."""

    def __init__(self, folder: Path, restored_step: int):
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(str(folder), purge_step=restored_step + 1 if restored_step else None)

    def log(self, row: Mapping[str, Any]) -> None:
        """Write a scalar for each number."""
        for name, value in numbers(row).items():
            self._writer.add_scalar(name, value, row["step"])

    def flush(self) -> None:
        """Write what is held back."""
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


class WeightsAndBiases:
    """https://wandb.ai: WANDB_MODE=offline keeps the run in RUN/wandb, `wandb sync` sends it later.

    Steps are a value of our own there, not W&B's counter, which refuses to go back: a resumed run takes the steps after
    its checkpoint again, and sends the same values for them.
    """

    def __init__(self, folder: Path, project: str, settings: Mapping[str, Any]):
        import wandb  # pyright: ignore[reportMissingImports]  (an extra)

        id = run_id(folder)
        try:
            self._run = wandb.init(
                project=project, id=id, name=id, dir=str(folder), config=dict(settings), resume="allow", save_code=False
            )
        except wandb.Error as error:
            raise TrainingError(
                f"train.track=wandb must reach Weights & Biases, got {str(error).splitlines()[0]}; run wandb login, "
                "set WANDB_MODE=offline, or leave it out with train.track=none"
            ) from None
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")

    def log(self, row: Mapping[str, Any]) -> None:
        """Send the numbers of a row."""
        self._run.log({"step": row["step"], **numbers(row)})

    def flush(self) -> None:
        """W&B sends on its own."""

    def close(self) -> None:
        """Wait until everything is sent."""
        self._run.finish()


class Trackio:
    """https://github.com/gradio-app/trackio: a database on this machine, seen with `trackio show`."""

    def __init__(self, folder: Path, project: str, settings: Mapping[str, Any]):
        import trackio  # pyright: ignore[reportMissingImports]  (an extra)

        self._run: Any = trackio.init(
            project=project, name=run_id(folder), config=json.loads(json.dumps(settings)), resume="allow"
        )

    def log(self, row: Mapping[str, Any]) -> None:
        """Store the numbers of a row."""
        self._run.log(numbers(row), step=row["step"])

    def flush(self) -> None:
        """Trackio stores on its own."""

    def close(self) -> None:
        """Wait until everything is stored."""
        self._run.finish()
