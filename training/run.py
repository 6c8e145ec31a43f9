"""The folder of a run: config.yaml, tokenizer/, metrics.jsonl, events.*, checkpoints/STEP/, summary.json, loss.png."""

import atexit
import dataclasses
import fcntl
import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import yaml

from tokenizer.ownership import find_owner, kind_of
from training.config import DEFAULT_CONFIG, Config, config_yaml, parse_arguments, resolved_settings
from training.errors import ConfigError, TrainingError
from training.metrics import read_rows

if TYPE_CHECKING:
    from tokenizer import Tokenizer

FREE_SETTINGS = (
    "train.run",
    "train.num_steps",
    "train.log_every",
    "train.evaluate_every",
    "train.checkpoint_every",
    "train.keep_checkpoints",
    "train.keep_every",
    "train.max_bad_steps",
    "train.microbatch_tokens",
    "train.peak_flops",
    "train.profile_steps",
    "train.sample_prompt",
    "train.sample_temperature",
    "train.sample_tokens",
    "train.spike_deviations",
    "train.spike_window",
    "train.tensorboard",
    "train.track",
    "train.track_project",
    "train.watchdog_factor",
    "train.watchdog_long_seconds",
    "train.watchdog_seconds",
    "data.ahead_windows",
    "data.keep_windows",
    "data.store",
    "data.cache",
    "data.cache_bytes",
    "data.token_file",
    "data.root_certificates",
    "data.epochs",
    "data.executor",
    "data.prefetch",
    "data.workers",
    "distributed",
)
"""Settings that a run may be started again with another value of: they change none of the steps already taken.

A store may move; that its content is the same, checkpoints know by its digest. Another train.microbatch_tokens sums in
another order, as another number of devices does: the same steps, but for rounding.
"""


OWN_NAMES = ("checkpoints", "config.yaml", "loss.png", "summary.json", "tokenizer")
"""What a run makes or replaces in its folder."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One run's folder."""

    folder: Path

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.folder / "checkpoints"

    @property
    def tokenizer(self) -> Path:
        """Folder of the tokenizer."""
        return self.folder / "tokenizer"

    @property
    def plot(self) -> Path:
        """The loss plot."""
        return self.folder / "loss.png"

    @property
    def summary(self) -> Path:
        """The account of the last start: steps, speed and where the time went."""
        return self.folder / "summary.json"

    def finished_row(self, num_steps: int | None) -> dict[str, Any] | None:
        """The row that closes a finished run of at least `num_steps` steps, or None."""
        rows = list(read_rows(self.folder / "metrics.jsonl"))
        if rows and "finished" in rows[-1] and self.plot.exists() and rows[-1]["step"] >= (num_steps or 0):
            return rows[-1]
        return None

    def check_config(self, config: Config) -> None:
        """Refuse to go on with settings that the steps already taken did not have.

        Raises:
            ConfigError: names the first such setting and both values.
        """
        path = self.folder / "config.yaml"
        if not path.exists():
            return
        # A run from before there was a setting has its default.
        defaults = _flatten(resolved_settings(Config()))
        was = defaults | _flatten(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
        now = _flatten(resolved_settings(config))
        for key in now:
            if was[key] != now[key] and not _is_free(key):
                raise ConfigError(
                    f"{key} must be {_spell(was[key])} in {self.folder}, as it was there, got {_spell(now[key])}; "
                    f"go on with python train.py {path} or choose another folder with train.run=..."
                )

    def begin(self, config: Config, tokenizer: "Tokenizer") -> None:
        """Write what the run is made from: config.yaml and tokenizer/."""
        from tokenizer import Tokenizer, TokenizerError
        from tokenizer.artefact import place_tokenizer

        self.write_config(config)
        with suppress(TokenizerError):
            if Tokenizer.load(self.tokenizer).fingerprint == tokenizer.fingerprint:
                return
        place_tokenizer(tokenizer, self.tokenizer)

    def write_config(self, config: Config, *, place: Path | None = None) -> None:
        """Write config.yaml, every setting resolved: `python train.py RUN/config.yaml` means this run.

        `place` is where the folder will be, when it is made beside that.
        """
        own = dataclasses.replace(config.train, run=str(place or self.folder))
        config = dataclasses.replace(config, train=own, distributed=config.distributed.shared)
        self.folder.mkdir(parents=True, exist_ok=True)
        beside = self.folder / ".config.yaml.tmp"
        beside.write_text(config_yaml(config), encoding="utf-8")
        beside.replace(self.folder / "config.yaml")

    def lock(self) -> TextIO:
        """Take the run for this process until it ends, however it ends; keep the returned file.

        Raises:
            TrainingError: another process is training this run, the folder is something else, or cannot be written.
        """
        self._refuse_other_folder()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = (self.folder / ".lock").open("a+")
        except OSError as error:
            raise TrainingError(
                f"train.run must be a folder that can be written, got {self.folder} ({error.strerror}); "
                "choose another with train.run=..."
            ) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            owner = file.read().strip()
            file.close()
            raise TrainingError(
                f"run must be trained by one process at a time, got {self.folder}, which process {owner} is training; "
                "wait for it or choose another train.run=..."
            ) from None
        atexit.register(_remove_unused, self.folder)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        return file

    def _refuse_other_folder(self) -> None:
        """A run would write over what is called like its own files in a folder that is none."""
        owner = find_owner(self.folder)
        names = [name for name in OWN_NAMES if (self.folder / name).exists()]
        if owner is not None or (names and kind_of(self.folder) != "a run"):
            what = f"part of {owner.kind}" if owner is not None else f"a folder with {names[0]}"
            raise TrainingError(
                f"train.run must be a new folder, or that of a run, got {self.folder}, {what}; choose another with "
                "train.run=..."
            )


def run_of(config: Config, arguments: Sequence[str]) -> Run:
    """The run that a command line means: train.run, or runs/NAME of the config file, with a digest of the overrides.

    Overrides make another run, so that trying a setting never touches the run of the file itself.
    """
    if config.train.run is not None:
        return Run(Path(config.train.run))
    path, overrides = parse_arguments(arguments)
    told = sorted((key, value) for key, value in overrides if not key.startswith("distributed."))
    suffix = "-" + hashlib.sha256(json.dumps(told).encode()).hexdigest()[:6] if told else ""
    return Run(Path("runs") / ((path or DEFAULT_CONFIG).stem + suffix))


def _remove_unused(folder: Path) -> None:
    """Remove the folder of a run that ended before it wrote anything, unless another process has taken it since."""
    with suppress(OSError):
        if [path.name for path in folder.iterdir()] == [".lock"]:
            with (folder / ".lock").open() as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                (folder / ".lock").unlink()
                folder.rmdir()


def _flatten(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, dict) and not prefix:
            flat |= _flatten(value, f"{key}.")
        else:
            flat[prefix + str(key)] = value
    return flat


def _spell(value: Any) -> str:
    """A value as one writes it in a config: null, true, text without quotes."""
    return value if isinstance(value, str) else json.dumps(value)


def _is_free(key: str) -> bool:
    return key in FREE_SETTINGS or key.split(".")[0] in FREE_SETTINGS
