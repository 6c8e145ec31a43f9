"""Documents to batches: the token store, its decomposition into length buckets, the schedule and the loader.

    store = dataservice.open_data(corpus, config, tokenizer)
    for batch in dataservice.batches(store, config):
        batch["inputs"], batch["targets"]

Names are imported when first used, so that a command line answers at once.
"""

# Before all else: from here on, Ctrl-C ends a command in one line.
from tokenizer import interrupts as _interrupts  # noqa: F401, I001

from importlib import import_module
from typing import TYPE_CHECKING

# Not put off: `buckets` names a module as well, which would take the function's place when it is imported later.
from dataservice.buckets import Bucket, buckets, rows_per_step
from dataservice.config import DataConfig
from dataservice.errors import DataError, IngestError, StoreError

if TYPE_CHECKING:
    from dataservice.held_out import held_out_batches
    from dataservice.identity import open_schedule, prefix_digest, schedule_digest
    from dataservice.loader import Batch, batches
    from dataservice.locating import open_store
    from dataservice.opening import find_data, open_data
    from dataservice.preparation import PrepareReport, prepare
    from dataservice.retention import Retention
    from dataservice.schedule import Position, Schedule
    from dataservice.store import ShardTable, Store, TokenFormat, write_store
    from dataservice.verification import Problem, verify
    from dataservice.windows import Windows

__all__ = [
    "Batch",
    "Bucket",
    "DataConfig",
    "DataError",
    "IngestError",
    "Position",
    "PrepareReport",
    "Problem",
    "Retention",
    "Schedule",
    "ShardTable",
    "Store",
    "StoreError",
    "TokenFormat",
    "Windows",
    "batches",
    "buckets",
    "find_data",
    "held_out_batches",
    "open_data",
    "open_schedule",
    "open_store",
    "prefix_digest",
    "prepare",
    "rows_per_step",
    "schedule_digest",
    "verify",
    "write_store",
]

_MODULES = {
    "Batch": "loader",
    "Position": "schedule",
    "PrepareReport": "preparation",
    "Problem": "verification",
    "Retention": "retention",
    "Schedule": "schedule",
    "ShardTable": "store",
    "Store": "store",
    "TokenFormat": "store",
    "Windows": "windows",
    "batches": "loader",
    "find_data": "opening",
    "held_out_batches": "held_out",
    "open_data": "opening",
    "open_schedule": "identity",
    "open_store": "locating",
    "prefix_digest": "identity",
    "prepare": "preparation",
    "schedule_digest": "identity",
    "verify": "verification",
    "write_store": "store",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'dataservice' has no attribute {name!r}")
    return getattr(import_module(f"dataservice.{_MODULES[name]}"), name)
