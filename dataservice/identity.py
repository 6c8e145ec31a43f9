"""What a run's data is: the digests that a checkpoint carries, and the schedule over a store."""

import hashlib
import json

from dataservice.buckets import rows_per_step
from dataservice.config import DataConfig
from dataservice.curriculum import length_odds
from dataservice.errors import DataError
from dataservice.indexes import RowIndexes
from dataservice.schedule import Position, Schedule
from dataservice.store import Store

__all__ = ["open_schedule", "prefix_digest", "schedule_digest"]

# To be raised with any change that gives a step other rows: old checkpoints must then be refused.
_ORDER_VERSION = 1


def open_schedule(store: Store, config: DataConfig, indexes: RowIndexes | None = None) -> Schedule:
    """Return the schedule of `config` over `store`, which may still be in the making.

    Raises `DataError` when the mixture needs all of a store that is not complete.
    """
    if config.mixture != "natural" and not store.is_complete:
        store.refresh()
        if not store.is_complete:
            have = f"{len(store.shards)} of {store.num_planned_shards} shards"
            raise DataError(
                f"store must be complete for a mixture of lengths, got {have}; "
                "wait for its preparation to end or set data.mixture=natural"
            )
    indexes = indexes or RowIndexes(store, config)
    return Schedule(indexes.windows(), config)


def schedule_digest(config: DataConfig) -> str:
    """Return a digest of the settings that rows and their order depend on, in hex.

    Not among them: where the store is, workers, prefetch, and the number of epochs, which only says when to stop.
    """
    settings = {
        "version": _ORDER_VERSION,
        "sequences": config.sequences,
        "lengths": config.lengths,
        "tails": config.tails,
        "tokens_per_step": config.tokens_per_step,
        "window_shards": config.window_shards,
        "mixture": config.mixture,
        "odds": length_odds(config),
        "odds_times": config.odds_times,
        "cycles": config.cycles,
        "seed": config.seed,
    }
    for name in ("warmup_curriculum", "cooldown_curriculum"):
        curriculum = getattr(config, name)
        if curriculum is not None:
            settings[name] = length_odds(config, curriculum)
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def prefix_digest(store: Store, schedule: Schedule, step: int) -> str:
    """Return the digest of the windows that the steps before `step` (at least the first) were made from, in hex.

    Equal for a store prepared at once and the same one in the making, by any version of any library; another token,
    another cut into documents or another tokenizer changes it. So do documents that are appended later, for steps that
    these would change: a mixture's, which takes its share of every window, and those that end an epoch.
    """
    position = schedule.locate(max(step - 1, 0))
    if position is None or position.epoch or schedule.config.mixture != "natural":
        return store.prefix_digest(store.num_planned_shards)
    _, end = schedule.windows.bounds(position.window)
    digest = store.prefix_digest(end)
    return hashlib.sha256(f"{digest} ends".encode()).hexdigest() if _needs_the_end(position, schedule) else digest


def _needs_the_end(position: Position, schedule: Schedule) -> bool:
    """Return whether a step would be another one if a window came after the last one, which is full."""
    config, last_window = schedule.config, len(schedule.windows) - 1
    if (position.window, position.cycle) != (last_window, config.cycles - 1):
        return False
    _, num_shards = schedule.windows.bounds(last_window)
    if not config.window_shards or num_shards % config.window_shards:
        return False
    # The last batches of an epoch are among the steps of its last cycle, complete or not.
    _, rows = schedule.rows_per_epoch()
    sizes = [rows_per_step(bucket, config) for bucket in schedule.buckets]
    return config.cooldown_curriculum is not None or bool((rows % sizes).any())
