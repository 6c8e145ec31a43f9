"""Shards whose files were taken from a store behind training (STORE/removed/): which, and what must still be known."""

from dataclasses import asdict, dataclass
from pathlib import Path

from dataservice.errors import StoreError
from dataservice.store.files import damaged, read_sealed_json, write_sealed_json
from dataservice.store.shard import DATA_FILES, shard_folder

__all__ = ["Removal", "remove_shard"]

# In a folder of its own, since the writer of a store sweeps partial files from where it writes itself.
REMOVAL_NAME = "removed/removal.json"


@dataclass(frozen=True, kw_only=True)
class Removal:
    """What the file says: it is written before the files go, so that none is missed that is not counted here.

    Attributes:
        schedule: digest of the schedule that has passed the shards.
        shards: how many shards, from the first on, were passed.
        kept: those of them that stay, since rows of theirs are still to come.
        rows: name of the kind of rows that `packed_rows` counts.
        packed_rows: rows of the packed bucket in each passed shard, which nothing else tells any more; empty where
            there is no such bucket.
    """

    schedule: str
    shards: int
    kept: tuple[int, ...]
    rows: str
    packed_rows: tuple[int, ...]

    @property
    def num_removed(self) -> int:
        """How many shards have no files any more."""
        return self.shards - len(self.kept)

    def holds(self, shard: int) -> bool:
        """Whether the files of a shard are there."""
        return shard >= self.shards or shard in self.kept

    def write(self, store: Path) -> None:
        """Replaces what an earlier one said."""
        path = store / REMOVAL_NAME
        path.parent.mkdir(exist_ok=True)
        write_sealed_json(path, asdict(self))

    @classmethod
    def read(cls, store: Path) -> "Removal | None":
        """What the store says, None where nothing was removed; StoreError when it is damaged."""
        path = store / REMOVAL_NAME
        if not path.exists():
            return None
        fields = read_sealed_json(path)
        try:
            kept, packed_rows = tuple(fields.pop("kept")), tuple(fields.pop("packed_rows"))
            return cls(kept=kept, packed_rows=packed_rows, **fields)
        except (KeyError, TypeError) as error:
            raise damaged(path, "what was removed") from error


def remove_shard(store: Path, name: str) -> None:
    """Removes a shard's data; its commit record stays, so that a writer that carries on knows its input."""
    try:
        for file in DATA_FILES:
            (shard_folder(store, name) / file).unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"store {store} must be writable, got {error.strerror or error}; mend that") from error
