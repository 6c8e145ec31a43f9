"""How often each token was there to be learnt: in the steps that a run has taken, or else in the whole of a store."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

import dataservice
from dataservice import DataConfig, DataError, Store
from evaluation.subject import Subject
from tokenizer.progress import Progress
from training.checkpoint import read_position
from training.weights import find_checkpoint, is_run, open_run

__all__ = ["WHOLE_STORE", "Occurrences", "count_occurrences", "count_trained", "find_occurrences"]

BLOCK_TOKENS = 1 << 24
WHOLE_STORE = "the whole store"


class Occurrences(NamedTuple):
    """Counts of tokens, and what they are counted in."""

    counts: np.ndarray
    """int64[V]."""
    scope: str
    """In words: `steps 1 to 60`, or WHOLE_STORE, of which a model may have been trained on less, or more than once."""


def find_occurrences(subject: Subject, store: Store, progress: Progress | None = None) -> Occurrences:
    """Those in the steps that a run was trained for, where the store is its own; else those in the whole store.

    That the store gave a run its steps is known by the digests of its checkpoint.
    """
    vocab_size = subject.tokenizer.vocab_size
    if subject.step and is_run(subject.place):
        config, _ = open_run(subject.place)
        _, place = find_checkpoint(subject.place, config, subject.step, "--step")
        position = read_position(place, "choose another with --step")
        if position is not None and _gave(store, config.data, position.step, position.data, position.schedule):
            counts = count_trained(store, config.data, position.step, vocab_size, progress)
            before = ", but for those before its initial weights" if config.train.initial_weights else ""
            return Occurrences(counts, f"steps 1 to {position.step:,}{before}")
    return Occurrences(count_occurrences(store, vocab_size, progress), WHOLE_STORE)


def count_occurrences(store: Store, vocab_size: int, progress: Progress | None = None) -> np.ndarray:
    """How often each token is in a store (held-out documents are not), int64[vocab_size]."""
    counts = np.zeros(vocab_size, np.int64)
    sizes = store.shards.tokens.tolist()
    for shard, size in enumerate(sizes):
        for first in range(0, size, BLOCK_TOKENS):
            block = store.read_rows(shard, np.array([first]), min(BLOCK_TOKENS, size - first))
            counts += np.bincount(block[0], minlength=vocab_size)
        if progress:
            progress("count tokens of the store", shard + 1, len(sizes))
    return counts


def count_trained(
    store: Store, config: DataConfig, num_steps: int, vocab_size: int, progress: Progress | None = None
) -> np.ndarray:
    """How often each token was a target in the first steps of a run, int64[vocab_size]; padding is none.

    Epochs of the natural mixture have the same targets, so one of them is read.
    """
    epochs, first_left = 0, 0
    if config.mixture == "natural" and store.is_complete:
        per_epoch = dataservice.open_schedule(store, config).steps_per_epoch()
        epochs = num_steps // per_epoch
        first_left = epochs * per_epoch
    counts = _count_steps(store, config, range(first_left, num_steps), vocab_size, progress)
    if epochs:
        counts += epochs * _count_steps(store, config, range(per_epoch), vocab_size, progress)
    return counts


def _count_steps(
    store: Store, config: DataConfig, steps: range, vocab_size: int, progress: Progress | None
) -> np.ndarray:
    """How often each token was a target in these steps, counted from 0; int64[vocab_size]."""
    counts, waiting, size = np.zeros(vocab_size, np.int64), [], 0
    if not steps:
        return counts
    batches = dataservice.batches(store, replace(config, prefetch=0), start_step=steps.start, num_steps=len(steps))
    for number, batch in enumerate(batches, 1):
        is_real = batch["segments"] if batch["packed"] else batch["weights"]
        waiting.append(batch["targets"][is_real > 0].reshape(-1))
        size += waiting[-1].size
        # A count costs as much as the vocabulary is large.
        if size >= BLOCK_TOKENS or number == len(steps):
            counts += np.bincount(np.concatenate(waiting), minlength=vocab_size)
            waiting, size = [], 0
            if progress:
                progress("count tokens of steps", number, len(steps))
    return counts


def _gave(store: Store, config: DataConfig, steps: int, data: str, schedule: str) -> bool:
    """Whether a store, by these settings, gives the steps of a checkpoint with these digests."""
    if dataservice.schedule_digest(config) != schedule:
        return False
    try:
        return dataservice.prefix_digest(store, dataservice.open_schedule(store, config), steps) == data
    except DataError:  # another store may be too small for the settings
        return False
