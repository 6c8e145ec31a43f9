"""A window of steps traced by jax's profiler, on request."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import jax

from training.settings import TrainConfig


class Profile:
    """Traces the steps `train.profile_steps` names into FOLDER/profile, of process 0's devices.

    TensorBoard and XProf read the folder, Perfetto its perfetto_trace.json.gz. The trace holds whole steps: the caller
    waits for all steps before `start` and `stop`, which changes when steps are taken, never what they compute.
    """

    def __init__(self, folder: Path, config: TrainConfig):
        self.folder = folder / "profile"
        self._is_running = False
        traces = bool(config.profile_steps) and jax.process_index() == 0
        self._first, self._last = config.profile_steps if traces else (0, -1)

    def tell_missed(self, step: int, num_steps: int) -> None:
        """Say so when none of the steps asked for is among those after `step` up to `num_steps`."""
        if self._last > 0 and step < num_steps and not (self._first <= num_steps and step < self._last):
            print(
                f"no steps are traced: train.profile_steps are [{self._first}, {self._last}], this start takes "
                f"{step + 1} to {num_steps}"
            )

    def starts_at(self, step: int) -> bool:
        """Whether to start before this step is taken (a resumed run may come in the midst of the window)."""
        return not self._is_running and self._first <= step <= self._last

    def stops_at(self, step: int) -> bool:
        """Whether to stop after this step."""
        return self._is_running and step >= self._last

    def start(self) -> None:
        """Start tracing."""
        jax.profiler.start_trace(str(self.folder), create_perfetto_trace=True)
        self._is_running = True

    def stop(self) -> None:
        """Write the trace, if one is under way."""
        if self._is_running:
            self._is_running = False
            jax.profiler.stop_trace()
            print(f"wrote the trace of steps to {self.folder}; look at it with tensorboard --logdir {self.folder}")

    def name(self, step: int) -> AbstractContextManager[object]:
        """Marks within the block as this step in the trace."""
        return jax.profiler.StepTraceAnnotation("train", step_num=step) if self._is_running else nullcontext()
