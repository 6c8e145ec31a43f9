"""Run by test_determinism.py: prepares documents and reads batches while folders are listed in a random order.

Arguments: the folder of documents, the store to make, the seed of the order, workers, batches made ahead. Prints a JSON
object: digests of the store's files, and for every kind of sequences of the batches, with the last state.
"""

import hashlib
import json
import os
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

ORDER = random.Random(sys.argv[3])
listdir, scandir = os.listdir, os.scandir


def list_shuffled(*arguments: Any) -> list:
    entries = sorted(listdir(*arguments))
    ORDER.shuffle(entries)
    return entries


class Entries:
    """What `os.scandir` returns, with the entries in another order."""

    def __init__(self, *arguments: Any) -> None:
        with scandir(*arguments) as found:
            self._entries = sorted(found, key=lambda entry: entry.name)
        ORDER.shuffle(self._entries)

    def __iter__(self) -> "Entries":
        return self

    def __next__(self) -> os.DirEntry:
        if not self._entries:
            raise StopIteration
        return self._entries.pop()

    def __enter__(self) -> "Entries":
        return self

    def __exit__(self, *_: object) -> None:
        self._entries.clear()

    close = __exit__


os.listdir, os.scandir = list_shuffled, Entries  # before anything keeps the first ones

import numpy as np  # noqa: E402

from dataservice import DataConfig, Store, batches, prepare  # noqa: E402
from dataservice.config import SEQUENCES  # noqa: E402
from tokenizer import CorpusConfig, Tokenizer  # noqa: E402


def digest_files(folder: Path) -> dict[str, str]:
    paths = sorted(Path(root, name) for root, _, names in os.walk(folder) for name in names)
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def digest_batches(store: Store, config: DataConfig) -> list:
    iterator, digest = iter(batches(store, config)), hashlib.sha256()
    for batch in iterator:
        arrays = [value.tobytes() if isinstance(value, np.ndarray) else value for value in batch.values()]
        digest.update(repr([*batch, *arrays]).encode())
    state = iterator.get_state()
    iterator.close()
    return [digest.hexdigest(), state]


def main(documents: str, output: str, workers: int, prefetch: int) -> None:
    tokenizer = Tokenizer(np.array([[101, 32], [116, 104]]), ("<eot>", "<eod>"))
    corpus = CorpusConfig(paths=(f"{documents}/code", f"{documents}/**/*.jsonl"), held_out_fraction=0.3)
    prepare(corpus, tokenizer, Path(output), workers=workers)
    found: dict[str, Any] = {"files": digest_files(Path(output))}
    config = DataConfig(
        min_length=4, max_length=32, tokens_per_step=64, window_shards=2, workers=workers, prefetch=prefetch
    )
    for kind in SEQUENCES:
        found[kind] = digest_batches(Store.open(output), replace(config, sequences=kind))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[4]), int(sys.argv[5]))
