"""Files of tiktoken ranks: a line a token, its bytes in base64 and its rank, which is its id.

Ranks alone are enough: a token is made by one pair only, that of the two parts into which the earlier tokens encode it.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tokenizer.errors import TokenizerError
from tokenizer.splitting.patterns import warn_of_engines

if TYPE_CHECKING:
    from tokenizer.vocabulary import Tokenizer

__all__ = ["export_tiktoken", "import_tiktoken", "pairs_of_ranks"]

NUM_BYTES = 256


def export_tiktoken(tokenizer: "Tokenizer") -> bytes:
    """Write the file's content, special tokens left out: tiktoken takes those, and the pattern, from its caller.

    Raises TokenizerError when the ids of an imported tokenizer do not rise with its merges.
    """
    num_learned = NUM_BYTES + len(tokenizer.pairs)
    if (np.diff(tokenizer.ids[NUM_BYTES:num_learned]) < 0).any():
        raise TokenizerError("ids must rise with the merges for tiktoken, got others; use tokenizer.json instead")
    numbers = np.sort(tokenizer.ids[:num_learned]).tolist()
    return b"".join(b"%s %d\n" % (b64encode(tokenizer.token_bytes[number]), number) for number in numbers)


def import_tiktoken(path: Path, pattern: str, special_tokens: Sequence[str]) -> "Tokenizer":
    """Read a file; see ``Tokenizer.from_tiktoken``."""
    from tokenizer.vocabulary import Tokenizer

    warn_of_engines(pattern)
    ranks = _read_ranks(path)
    numbers = sorted(ranks.values())
    # Ranks that the file leaves out belong to special tokens, as in a tokenizer that was extended.
    special_ids = sorted({*range(len(ranks) + len(special_tokens))} - {*numbers})
    if min(numbers, default=0) < 0 or len({*numbers}) < len(numbers) or len(special_ids) != len(special_tokens):
        raise TokenizerError(
            f"ranks must be 0 to {len(ranks) - 1}, each once, but for those of special tokens, got others; "
            f"--special-tokens names them: {path}"
        )
    if missing := [byte for byte in range(NUM_BYTES) if bytes([byte]) not in ranks]:
        raise TokenizerError(f"ranks must hold all 256 bytes, got none for byte 0x{missing[0]:02x}: {path}")
    learned = sorted((token for token in ranks if len(token) > 1), key=ranks.__getitem__)
    try:
        pairs = pairs_of_ranks(learned)
    except ValueError as fault:
        raise TokenizerError(f"ranks must be byte-level BPE, got {fault}: {path}") from None
    ids = [ranks[bytes([byte])] for byte in range(NUM_BYTES)] + [ranks[token] for token in learned]
    ids += special_ids
    return Tokenizer(pairs, special_tokens, pattern, ids=np.array(ids), provenance={"imported": path.name})


def pairs_of_ranks(tokens: Sequence[bytes]) -> np.ndarray:
    """Return the pairs (int32[tokens, 2]) that make tokens of two bytes or more, given in the order of their ranks.

    Part numbers are byte values and 256 on for `tokens`. Raises ValueError for a token that no pair makes.

    >>> pairs_of_ranks([b"ab", b"abc"]).tolist()
    [[97, 98], [256, 99]]
    """
    ranks = {bytes([byte]): byte for byte in range(NUM_BYTES)}
    pairs = np.empty((len(tokens), 2), np.int32)
    for number, token in enumerate(tokens):
        parts = _encode(token, ranks)
        if len(parts) != 2:
            raise ValueError(f"token {token!r}, which earlier ones encode in {len(parts)} parts, not 2")
        pairs[number] = [ranks[part] for part in parts]
        ranks[token] = NUM_BYTES + number
    return pairs


def _encode(word: bytes, ranks: dict[bytes, int]) -> list[bytes]:
    """Merge, again and again, the neighbours that make the token of the lowest rank."""
    parts = [bytes([byte]) for byte in word]
    while True:
        found = [(ranks[left + right], at) for at, (left, right) in enumerate(pairwise(parts)) if left + right in ranks]
        if not found:
            return parts
        _, at = min(found)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


def _read_ranks(path: Path) -> dict[bytes, int]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise TokenizerError(f"file must be readable, got {error.strerror}: {path}") from None
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(lines, 1):
        try:
            token, rank = line.split()
            ranks[b64decode(token, validate=True)] = int(rank)
        except ValueError:
            raise TokenizerError(
                f"line must be a token in base64 and its rank, got {line[:40]!r} in line {number} of {path}"
            ) from None
    return ranks
