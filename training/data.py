"""From settings to a tokenizer and a store: opened if they exist, made (and kept) if not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

import dataservice
import tokenizer
from dataservice import Store
from tokenizer import Tokenizer
from training.agreement import wait_for_first
from training.config import Config
from training.errors import ConfigError
from training.placement import block_of
from training.step import StepSpec


def open_corpus(config: Config, progress: Callable[..., None]) -> tuple[Store, Tokenizer]:
    """Open data.store with its tokenizer, or make both from corpus.paths.

    Process 0 makes what is missing; the others open it afterwards, so data.cache must be a folder that all of them see.
    Returns when the first window is ready; the rest of the store is made while training goes on.
    """
    if jax.process_index() > 0:
        wait_for_first("corpus")
    opened = _open(config, progress)
    if jax.process_index() == 0:
        wait_for_first("corpus")
    return opened


def step_count(store: Store, config: Config) -> int:
    """Steps of the run: train.num_steps, or all steps of data.epochs epochs (waits until the store is complete)."""
    if config.train.num_steps is not None:
        return config.train.num_steps
    store.wait_for_shards(store.num_planned_shards)
    return dataservice.Schedule(dataservice.Windows(store, config.data), config.data).num_steps(config.data.epochs)


def held_out_batches(store: Store, config: Config, spec: StepSpec) -> list[dict[str, Any]]:
    """The batches of every evaluation: held-out documents of the first window; none where nothing is held out."""
    if not config.train.evaluate_batches:
        return []
    if store.held_out is None:
        print("no held-out documents, so no evaluation; set corpus.held_out_fraction, or prepare --held-out-fraction")
        return []
    batches = dataservice.held_out_batches(
        store,
        config.data,
        num_batches_per_bucket=config.train.evaluate_batches,
        block=lambda bucket: block_of(spec, bucket),
    )
    return list(batches)


def _open(config: Config, progress: Callable[..., None]) -> tuple[Store, Tokenizer]:
    if config.data.store is not None:
        store = Store.open(config.data.store)
        return store, store.tokenizer()
    if not config.corpus.paths:
        raise ConfigError(
            "corpus.paths must name documents when data.store is null, got none; "
            "set corpus.paths=[FOLDER, FILE.parquet, packages:] or data.store=STORE"
        )
    if config.tokenizer.path is not None:
        trained = Tokenizer.load(config.tokenizer.path)
    else:
        trained = tokenizer.train_corpus(
            config.corpus, config.tokenizer, cache=Path(config.data.cache), progress=progress
        )
    return dataservice.open_data(config.corpus, config.data, trained, progress=progress), trained
