"""From settings to a tokenizer, a store and batches: opened if they exist, made (and kept) if not."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

import dataservice
import tokenizer
from dataservice import (
    Batch,
    DataConfig,
    Retention,
    Store,
    held_out_batches,
    open_schedule,
    prefix_digest,
    schedule_digest,
)
from tokenizer import Tokenizer
from training.agreement import check_agreement, wait_for_all
from training.config import Config, config_digest
from training.errors import ConfigError
from training.phases import Phases
from training.placement import block_of
from training.position import Position
from training.signals import StopRequest
from training.step import Recipe


def open_corpus(config: Config, folder: Path, progress: Callable[..., None]) -> tuple[Store, Tokenizer]:
    """Open data.store with its tokenizer, or make both from corpus.paths.

    A store that is taken away behind training (data.keep_windows) is the run's own, in the run's `folder`.
    Process 0 makes what is missing; the others open it afterwards, so data.cache must be a folder that all of them see.
    Returns when the first window is ready; the rest of the store is made while training goes on.

    Raises:
        TrainingError: the processes of the run do not agree on settings, data or tokenizer.
    """
    if jax.process_index() > 0:
        wait_for_all("corpus")
    store, trained = _open(config, folder, progress)
    if jax.process_index() == 0:
        wait_for_all("corpus")
    # The digest of the data covers the tokenizer's.
    check_agreement(config=config_digest(config), tokenizer=trained.fingerprint, data=store.prefix_digest(1))
    return store, trained


def find_store(config: Config, folder: Path, trained: Tokenizer) -> Store:
    """The store of a run that has been started, as far as it is made.

    Raises:
        DataError: it is gone, or made from documents that have changed since.
    """
    return dataservice.find_data(config.corpus, _data_settings(config, folder), trained)


def step_count(store: Store, config: Config) -> int:
    """Steps of the run: train.num_steps, or all steps of data.epochs epochs (waits until the store is complete)."""
    if config.train.num_steps is None and config.data.ahead_windows:
        raise ConfigError(
            "train.num_steps must say where to stop with data.ahead_windows, got null; set it or data.ahead_windows=0"
        )
    return config.train.num_steps or open_schedule(store, config.data).num_steps()


def bookkeeping(store: Store, config: Config, trained: Tokenizer) -> tuple[Callable[[int, int], Position], Retention]:
    """What checkpoints need: (step, tokens) -> the position of this run there, and what removes windows behind them.

    Of several processes the first one removes. They share a schedule: it has counted a window's rows before any
    process can have a checkpoint behind which the window is removed.
    """
    schedule, digest = open_schedule(store, config.data), schedule_digest(config.data)

    def position(step: int, tokens: int) -> Position:
        data = prefix_digest(store, schedule, step)
        return Position(step, tokens, data, digest, trained.fingerprint, repr(config.model), trained.vocab_size)

    return position, Retention(store, config.data, schedule, removes=jax.process_index() == 0)


@contextmanager
def training_batches(
    store: Store, config: Config, recipe: Recipe, steps: range, stop: StopRequest, phases: Phases
) -> Iterator[Iterator[Batch]]:
    """This process's blocks of the batches of `steps`, made ahead by a thread; a stop ends a wait for documents."""

    def is_stopped() -> bool:
        # Asked again and again by a loader that waits for documents in the making.
        phases.ask_for_documents()
        return stop.signal is not None

    dataset = dataservice.batches(
        store,
        config.data,
        start_step=steps.start,
        num_steps=len(steps),
        block=lambda bucket: block_of(recipe, bucket),
        is_stopped=is_stopped,
    )
    iterator = iter(dataset)
    try:
        yield iterator
    finally:
        iterator.close()


def evaluation_settings(config: Config) -> DataConfig:
    """The settings by which held-out documents become rows."""
    kind = config.train.evaluate_sequences
    return config.data if kind is None else config.data.for_sequences(kind)


def evaluation_batches(store: Store, config: Config, recipe: Recipe) -> list[dict[str, Any]]:
    """The batches of every evaluation: held-out documents of the first window; none where nothing is held out."""
    if not config.train.evaluate_batches:
        return []
    batches = held_out_batches(
        store,
        evaluation_settings(config),
        num_batches_per_bucket=config.train.evaluate_batches,
        block=lambda bucket: block_of(recipe, bucket),
    )
    if not batches:
        print("no held-out documents in the first window, so no evaluation; raise corpus.held_out_fraction for one")
    return batches


def _open(config: Config, folder: Path, progress: Callable[..., None]) -> tuple[Store, Tokenizer]:
    if config.data.store is not None:
        path = config.tokenizer.path
        chosen = Tokenizer.load(path) if path is not None else dataservice.open_store(config.data).tokenizer()
        return dataservice.open_data(config.corpus, config.data, chosen, progress=progress), chosen
    if not config.corpus.paths:
        raise ConfigError(
            "corpus.paths must name documents when data.store is null, got none; "
            "set corpus.paths=[FOLDER, FILE.parquet, packages:] or data.store=STORE"
        )
    if config.tokenizer.path is not None:
        trained = Tokenizer.load(config.tokenizer.path)
    else:
        cache = Path(config.data.cache)
        trained = tokenizer.train_corpus(config.corpus, config.tokenizer, cache=cache, progress=progress)
    return dataservice.open_data(config.corpus, _data_settings(config, folder), trained, progress=progress), trained


def _data_settings(config: Config, folder: Path) -> DataConfig:
    """A store that is taken away behind training is the run's own."""
    if config.data.store is None and config.data.keep_windows is not None:
        return replace(config.data, cache=str(folder))
    return config.data
