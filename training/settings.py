"""Settings of the run and its processes."""

import dataclasses
import re
from typing import Literal

from dataservice.config import SequenceKind

_POSITIVE = ("log_every", "checkpoint_every", "keep_checkpoints", "max_bad_steps", "sample_tokens", "spike_window")
_NOT_NEGATIVE = (
    "evaluate_every",
    "evaluate_batches",
    "keep_every",
    "loss_chunk_tokens",
    "microbatch_tokens",
    "peak_flops",
    "sample_temperature",
    "spike_deviations",
    "watchdog_factor",
    "watchdog_long_seconds",
    "watchdog_seconds",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How long to train, what to write and when."""

    run: str | None = None
    """Folder of the run: config, tokenizer, metrics, checkpoints, plot. Started again, a run goes on where it was.
    null: runs/NAME of the config file; with overrides on the command line a short digest of them is added."""
    num_steps: int | None = None
    """Optimizer steps; null: all steps of data.epochs epochs (needs a store that is complete)."""
    seed: int = 0
    """Seed of the initial parameters and of the sample."""
    initial_weights: str | None = None
    """Where the initial parameters come from: a run (its newest checkpoint), RUN/checkpoints/STEP or a folder of a
    Hugging Face Llama, of the same model and tokenizer; optimizer and steps start anew. null: drawn from the seed."""
    log_every: int = 10
    """Steps between two rows of metrics."""
    evaluate_every: int = 500
    """Steps between two evaluations on held-out documents; the last step is always evaluated. 0: only the last."""
    evaluate_batches: int = 8
    """Most batches of each length in an evaluation; 0: no evaluation at all."""
    evaluate_sequences: SequenceKind | None = None
    """Kind of sequences (data.sequences) of the held-out documents. null: that of training; runs that train on
    different kinds are compared on one."""
    checkpoint_every: int = 500
    """Steps between two checkpoints; there is always one before an evaluation, at SIGTERM and at the end."""
    checkpoints: str | None = None
    """Folder of this run's checkpoints: a path, or gs://BUCKET/FOLDER (needs gcsfs). null: RUN/checkpoints."""
    keep_checkpoints: int = 2
    """Latest checkpoints that are kept."""
    keep_every: int = 0
    """Steps between checkpoints that are kept for ever beside these, for evaluation and export: a multiple of
    checkpoint_every. 0: none."""
    max_bad_steps: int = 5
    """Steps in a row with a non-finite loss or gradient (each is skipped) after which the run stops."""
    microbatch_tokens: int = 0
    """Tokens that go through the model at once, on all devices together: a step sums the gradients of as many passes as
    that takes, and needs less memory. A pass takes at least a row of every device. 0: the whole batch at once."""
    spike_window: int = 64
    """Last steps of the same length that a loss and a gradient norm are compared with."""
    spike_deviations: float = 8.0
    """Robust deviations (1.4826 x the median absolute one, at least 1% of the median) above the median of the window
    from which on they are reported as a spike; 0: no reports."""
    watchdog_seconds: float = 300.0
    """Longest time without a step (or a batch of an evaluation) after which the run shows where it hangs and ends with
    exit code 75; 0: no limit."""
    watchdog_factor: float = 20.0
    """Or this many median steps, if that is longer."""
    watchdog_long_seconds: float = 3600.0
    """The same for what takes long by nature: compiling, restoring and saving checkpoints, waiting for documents that
    are still being made; 0: no limit. Making the tokenizer and the first window never has one."""
    profile_steps: tuple[int, ...] = ()
    """First and last step to trace with jax's profiler into RUN/profile, for TensorBoard, XProf or Perfetto; []: none.
    A few will do: traces are large."""
    peak_flops: float = 0.0
    """Peak FLOP/s of a device, by which MFU is reckoned; 0: that of the data sheet, where the device is known."""
    loss_chunk_tokens: int = 0
    """Tokens whose logits are held at once; 0: chosen so that they stay under about 256 MiB a device."""
    sample_prompt: str = ""
    """Text that the trained model goes on from at the end; empty: no sample."""
    sample_tokens: int = 128
    """Tokens of the sample."""
    sample_temperature: float = 0.7
    """Randomness of the sample: 0 takes the likeliest token, 1 draws as the model says."""
    tensorboard: bool = True
    """Write TensorBoard events beside metrics.jsonl."""
    track: Literal["none", "wandb", "trackio"] = "none"
    """Send the metrics also to Weights & Biases (wandb) or to trackio, each an extra of that name."""
    track_project: str = "dyadlm"
    """Project in which the run appears there."""

    def __post_init__(self) -> None:
        if self.num_steps is not None:
            _check_positive("num_steps", self.num_steps)
        for name in _POSITIVE:
            _check_positive(name, getattr(self, name))
        for name in _NOT_NEGATIVE:
            _check_not_negative(name, getattr(self, name))
        if self.keep_every % self.checkpoint_every:
            raise ValueError(
                f"keep_every must be a multiple of checkpoint_every, {self.checkpoint_every}, got {self.keep_every}"
            )
        scheme, separator, _ = (self.checkpoints or "").partition("://")
        if self.checkpoints == "" or (separator and scheme != "gs"):
            raise ValueError(
                f"checkpoints must be a folder or gs://BUCKET/FOLDER, got {self.checkpoints!r}; other stores are "
                "written to where they are mounted as a folder"
            )
        if self.profile_steps and not (
            len(self.profile_steps) == 2 and 1 <= self.profile_steps[0] <= self.profile_steps[1]
        ):
            raise ValueError(f"profile_steps must be [first, last], from 1, got {list(self.profile_steps)}")
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed must be at least 0 and below 2**32, got {self.seed}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DistributedConfig:
    """Which of several processes this one is (leave that as it is for one), and how devices share the model."""

    mode: Literal["single", "auto", "explicit"] = "single"
    """single: one process; auto: ask Slurm, Open MPI or the TPU pod; explicit: the three settings below."""
    coordinator: str | None = None
    """host:port of process 0 (explicit)."""
    num_processes: int | None = None
    """How many processes take part (explicit)."""
    process_id: int | None = None
    """Which of them this one is, from 0 (explicit)."""
    timeout: int = 300
    """Seconds that a process waits at the start for the others, which may come later."""
    tensor_parallel: int = 1
    """Into how many devices each layer's heads and hidden width are split, and the vocabulary; the others split rows
    and, where these run out, the sequence. For models too large to gather a layer of: it sends more than it saves
    elsewhere. Must divide the devices, best those of one host."""
    shard_parameters: bool = True
    """Keep only a part of parameters and optimizer state on each device and gather a layer when it is used (FSDP).
    false: every device keeps the whole, which sends less: for models that are small beside the devices' memory."""

    @property
    def shared(self) -> "DistributedConfig":
        """The same for every process of a run: without who this one is."""
        return dataclasses.replace(self, mode="single", coordinator=None, num_processes=None, process_id=None)

    def __post_init__(self) -> None:
        _check_positive("tensor_parallel", self.tensor_parallel)
        _check_positive("timeout", self.timeout)
        given = (self.coordinator, self.num_processes, self.process_id)
        if self.mode == "explicit" and None in given:
            raise ValueError(
                "mode explicit must come with coordinator, num_processes and process_id, got "
                f"coordinator={self.coordinator}, num_processes={self.num_processes}, process_id={self.process_id}"
            )
        if self.mode != "explicit" and given != (None, None, None):
            raise ValueError(f"mode must be explicit when coordinator or process numbers are given, got {self.mode}")
        if self.coordinator is not None and not re.fullmatch(r".+:\d+", self.coordinator):
            raise ValueError(f"coordinator must be host:port of process 0, got {self.coordinator}")
        if self.num_processes is not None:
            _check_positive("num_processes", self.num_processes)
            if not 0 <= (self.process_id or 0) < self.num_processes:
                raise ValueError(
                    f"process_id must be at least 0 and below num_processes, {self.num_processes}, "
                    f"got {self.process_id}"
                )


def _check_positive(name: str, value: float) -> None:
    if value <= 0:
        raise ValueError(f"{name} must be above 0, got {value}")


def _check_not_negative(name: str, value: float) -> None:
    if value < 0:
        raise ValueError(f"{name} must be at least 0, got {value}")
