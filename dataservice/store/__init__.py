"""The token store: its files, how they are committed, and how they are read."""

from dataservice.store.manifest import Manifest, TokenFormat
from dataservice.store.reader import Store
from dataservice.store.record import NUM_POWERS, ShardRecord, length_powers
from dataservice.store.table import ShardTable
from dataservice.store.writer import StoreWriter, write_store

__all__ = [
    "NUM_POWERS",
    "Manifest",
    "ShardRecord",
    "ShardTable",
    "Store",
    "StoreWriter",
    "TokenFormat",
    "length_powers",
    "write_store",
]
