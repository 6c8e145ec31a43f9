"""What preparing will read, write and take: said before it starts, and again when the first shard is measured."""

import shutil
from collections.abc import Sequence

from dataservice.prepare_shard import PreparedShard, ShardTask
from dataservice.store.record import ShardRecord
from dataservice.store.table import ShardTable
from tokenizer.corpus import InputShard

__all__ = ["describe_plan", "describe_rest", "format_bytes", "format_seconds"]

# Bytes of text to a token, for a vocabulary of some tens of thousands, before anything is measured.
BYTES_PER_TOKEN = 3.5
# gzip and zstandard on code and prose: 3 to 5.
COMPRESSION = 4


def describe_plan(missing: Sequence[ShardTask], num_shards: int, table: ShardTable) -> str:
    """One line: how much will be read, and about how much disk it takes."""
    if not missing:
        return f"prepare: all {num_shards:,} shards are there"
    size = sum(task.shard.size for task in missing)
    text_size = sum(task.shard.size * compression(task.shard) for task in missing)
    per_token = missing[0].tokens_of.dtype.itemsize
    # Nothing is measured before the first shard; later runs know the shards that are there.
    tokens_per_byte = table.tokens.sum() / max(1, table.bytes.sum()) if len(table) else 1 / BYTES_PER_TOKEN
    free = shutil.disk_usage(missing[0].store).free
    kept = f", {num_shards - len(missing):,} are there" if len(missing) < num_shards else ""
    return (
        f"prepare: reads {format_bytes(size)} in {len(missing):,} of {num_shards:,} shards{kept}; writes about "
        f"{format_bytes(text_size * tokens_per_byte * per_token)} to {missing[0].store} ({format_bytes(free)} free)"
    )


def describe_rest(missing: Sequence[ShardTask], first: PreparedShard, workers: int) -> str:
    """One line: time and disk for all shards, by the measure of the first: its input may be compressed."""
    own = next((task.shard.size for task in missing if task.shard.name == first.record.name), 0)
    share = sum(task.shard.size for task in missing) / max(1, own)
    disk = sum(shard_bytes(record) for record in (first.record, first.held_out) if record is not None)
    seconds = first.seconds * share / min(workers, len(missing))
    return (
        f"prepare: by the first shard, about {format_seconds(seconds)} with {workers} worker"
        f"{'s' if workers > 1 else ''}, and {format_bytes(disk * share)} of disk"
    )


def compression(shard: InputShard) -> int:
    """About how many bytes of text a byte of an input shard holds, before anything is measured."""
    return COMPRESSION if shard.files[0].path.lower().endswith((".gz", ".zst")) else 1


def shard_bytes(record: ShardRecord) -> int:
    """Size of a shard's files."""
    return sum(seal.size for seal in record.files.values())


def format_bytes(count: float) -> str:
    """A size as people write it.

    >>> format_bytes(1_500_000)
    '1.5 MB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def format_seconds(seconds: float) -> str:
    """A duration as people write it.

    >>> format_seconds(75)
    '1 min 15 s'
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
