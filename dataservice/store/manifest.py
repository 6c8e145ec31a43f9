"""manifest.json: the commit point of a store. What it does not count does not exist."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dataservice.errors import StoreError
from dataservice.store.files import FileSeal, canonical_json, damaged, read_sealed_json, write_sealed_json
from dataservice.store.record import COUNTS
from dataservice.store.table import ShardTable

if TYPE_CHECKING:
    from tokenizer import Tokenizer

__all__ = ["FORMAT", "MANIFEST_NAME", "Manifest", "TokenFormat", "totals"]

FORMAT = 2
MANIFEST_NAME = "manifest.json"


@dataclass(frozen=True)
class TokenFormat:
    """What the numbers in tokens.npy mean: whose ids they are, how many there are, and which one ends documents."""

    fingerprint: str
    vocab_size: int
    eod: int

    @classmethod
    def of(cls, tokenizer: "Tokenizer") -> "TokenFormat":
        """The format of a tokenizer's ids; StoreError when it has no `<eod>`."""
        if "<eod>" not in tokenizer.special_tokens:
            raise StoreError("tokenizer must have the special token <eod>, got none; train it with the default ones")
        return cls(tokenizer.fingerprint, tokenizer.vocab_size, tokenizer.special_tokens["<eod>"])

    @property
    def dtype(self) -> np.dtype:
        """uint16 where every id fits, else uint32; little-endian on every machine."""
        return np.dtype("<u2") if self.vocab_size <= 1 << 16 else np.dtype("<u4")

    @property
    def root(self) -> bytes:
        """The start of the digest chain over shards: equal tokens of another tokenizer are other data."""
        return canonical_json([self.fingerprint, self.vocab_size, self.eod])


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Fields of manifest.json.

    `shards` rows of the table are committed, of `planned_shards`; `rows` is their digest, and `table` the seal of
    shards.parquet as it was written with them (a reader may meet a newer one, whose first rows are the same).
    `settings` are those that the content depends on; `tokenizer` seals the files of STORE/tokenizer.
    """

    tokens_of: TokenFormat
    shards: int
    planned_shards: int
    totals: dict[str, int]
    settings: dict[str, Any]
    tokenizer: dict[str, FileSeal]
    held_out: bool
    rows: str
    table: FileSeal

    @property
    def is_complete(self) -> bool:
        """Whether every planned shard is committed."""
        return self.shards == self.planned_shards

    def write(self, store: Path) -> None:
        """Replaces STORE/manifest.json: this commits."""
        fields = {
            "format": FORMAT,
            "dtype": self.tokens_of.dtype.name,
            **asdict(self.tokens_of),
            **{name: value for name, value in asdict(self).items() if name != "tokens_of"},
        }
        write_sealed_json(store / MANIFEST_NAME, fields)

    @classmethod
    def read(cls, store: Path) -> "Manifest":
        """Reads STORE/manifest.json; StoreError when there is none, it is damaged, or of another format."""
        path = store / MANIFEST_NAME
        if not path.is_file():
            raise StoreError(
                f"store must be a folder with a {MANIFEST_NAME}, got {store}"
                f"{', which is a file' * store.is_file()}; make one with "
                "python -m dataservice prepare PATH... --tokenizer DIR --output STORE"
            )
        fields = read_sealed_json(path)
        if fields.get("format") != FORMAT:
            raise StoreError(f"format of store {store} must be {FORMAT}, got {fields.get('format')}; prepare it again")
        try:
            return cls._from_fields(fields)
        except (AttributeError, KeyError, TypeError) as error:
            raise damaged(path, "the fields of a manifest") from error

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> "Manifest":
        return cls(
            tokens_of=TokenFormat(fields["fingerprint"], fields["vocab_size"], fields["eod"]),
            shards=fields["shards"],
            planned_shards=fields["planned_shards"],
            totals=fields["totals"],
            settings=fields["settings"],
            tokenizer={name: FileSeal(*seal) for name, seal in fields["tokenizer"].items()},
            held_out=fields["held_out"],
            rows=fields["rows"],
            table=FileSeal(*fields["table"]),
        )


def totals(table: ShardTable) -> dict[str, int]:
    """Sum of each count over the shards."""
    return {name: int(getattr(table, name).sum()) for name in COUNTS}
