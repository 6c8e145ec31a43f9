"""What is known of a shard without reading its tokens: the commit record, shard.json."""

import builtins
import json
from dataclasses import asdict, dataclass

import numpy as np

from dataservice.store.files import FileSeal, sealed_json

__all__ = ["COUNTS", "NUM_POWERS", "ShardRecord", "length_powers", "significant"]

NUM_POWERS = 48
COUNTS = ("tokens", "documents", "bytes", "empty", "duplicates", "skipped")


@dataclass(frozen=True, kw_only=True)
class ShardRecord:
    """A shard's row: counts, digits of its documents' lengths, and the seal of each of its files.

    `empty` documents held no token, `skipped` ones could not be read, and `duplicates` are documents whose text was
    already met in the same input shard (counted, and kept). `content` is a digest (hex) of the tokens and the positions
    of documents alone: what identifies the data, whatever library wrote the files and whatever is said of its sources.
    """

    name: str
    tokens: int
    documents: int
    bytes: int
    empty: int
    duplicates: int
    skipped: int
    digits: tuple[int, ...]
    multiples: tuple[int, ...]
    content: str
    files: dict[str, FileSeal]

    def to_json(self) -> builtins.bytes:
        """The bytes of shard.json, which carries its own digest and, in the seals, those of the shard's files."""
        return sealed_json(asdict(self))

    @classmethod
    def from_json(cls, data: builtins.bytes) -> "ShardRecord":
        """Inverse of `to_json`; ValueError when the bytes are not exactly what it wrote."""
        fields = json.loads(data)
        try:
            del fields["digest"]
            files = {name: FileSeal(*seal) for name, seal in fields.pop("files").items()}
            powers = {name: tuple(fields.pop(name)) for name in ("digits", "multiples")}
            record = cls(files=files, **powers, **fields)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError("not a commit record") from error
        if record.to_json() != data:
            raise ValueError("not the bytes of its digest")
        return record


def length_powers(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """digits and multiples, int64[48] each, of documents of the given lengths (int64[documents]).

    >>> digits, multiples = length_powers(np.array([5, 4]))    # 101 and 100 in binary
    >>> digits[:3].tolist(), multiples[:3].tolist()
    ([1, 0, 2], [9, 4, 2])
    """
    digits, multiples = np.zeros(NUM_POWERS, np.int64), np.zeros(NUM_POWERS, np.int64)
    for power in range(int(lengths.max(initial=0)).bit_length()):
        shifted = lengths >> power
        digits[power] = np.count_nonzero(shifted & 1)
        multiples[power] = shifted.sum()
    return digits, multiples


def significant(powers: np.ndarray) -> tuple[int, ...]:
    """Integers without their final zeros, as a record holds them."""
    return tuple(int(value) for value in np.trim_zeros(powers, "b"))
