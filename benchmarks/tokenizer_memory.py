"""Training a tokenizer on a corpus repeated many times, with new names in every pass: memory follows distinct words.

    python -m benchmarks.tokenizer_memory PATH.parquet ... [--passes 30] [--vocab-size 32768]

Every pass after the first renames 1% of the identifiers, others each time, so that new words keep coming as in a larger
corpus; repositories keep their names. Documents are read as they are needed. Each run has a process of its own; memory
is what it holds at most beyond what it held before training. `formula` is BYTES_PER_WORD_BYTE and the other constants
below, times what was counted.
"""

import argparse
import re
from collections.abc import Iterator
from functools import partial
from zlib import crc32

from benchmarks.measurement import MEGABYTE, measure, print_table, run_in_turns

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_0-9]{2,}")
LETTERS = str.maketrans("0123456789abcdef", "qwrtzpsdfghjklxc")
RENAMED_OF = 100  # one identifier in so many
# The arrays of counting and merging. A byte of a distinct word: itself in the table, and in `merging.text.Text` token,
# next, previous, pair, word, rank (4 bytes each) and weight (8), its positions in the lists of pairs (4 for every pair
# it has been part of, about 3) and the sorting of all of them at the start (40). A word: five columns and up to eight
# slots of 12 bytes in the table, twice while it grows, counts and languages. An entry is a word in a repository of a
# language: 8 bytes, twice while sorted, and 4 in the result. A fixed part for batches of documents and pairs.
BYTES_PER_WORD_BYTE, BYTES_PER_WORD, BYTES_PER_ENTRY, FIXED_BYTES = 90, 250, 28, 120e6


def read_passes(paths: list[str], passes: int) -> Iterator[tuple[str, str, str]]:
    """Yield (text, repository, language) of all documents, `passes` times."""
    import pyarrow.parquet as pq

    for number in range(passes):
        rename = partial(_rename, number)
        for path in paths:
            for batch in pq.ParquetFile(path).iter_batches(64, columns=["text", "repo", "language"]):
                for row in batch.to_pylist():
                    text = IDENTIFIER.sub(rename, row["text"]) if number else row["text"]
                    yield text, row["repo"], row["language"]


def _rename(number: int, found: re.Match[str]) -> str:
    """Letters are added, not digits, which would be words of their own."""
    name = found[0]
    return name + f"{number:x}".translate(LETTERS) if crc32(name.encode()) % RENAMED_OF == number % RENAMED_OF else name


def train(paths: list[str], vocab_size: int, passes: int) -> None:
    from tokenizer.counting.counts import WordCounts, count_words
    from tokenizer.merging.trainer import merge_words

    def work() -> WordCounts:
        counts = count_words(read_passes(paths, passes), "gpt4")
        merge_words(counts, num_merges=vocab_size - 256)
        return counts

    measure(work, lambda counts: f"{len(counts.data)} {len(counts.counts)} {len(counts.repositories)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="Parquet files with columns text, repo, language")
    parser.add_argument("--passes", type=int, default=30, help="passes over the documents (default 30)")
    parser.add_argument("--vocab-size", type=int, default=32768, help="tokens, 256 bytes among them (default 32768)")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        train(options.paths, options.vocab_size, int(options.peer))
        return
    arguments = [*options.paths, "--vocab-size", str(options.vocab_size)]
    results = run_in_turns("benchmarks.tokenizer_memory", ["1", str(options.passes)], arguments, 1)
    rows = []
    for passes, (run,) in results.items():
        word_bytes, words, entries = map(int, run.digest.split())
        formula = word_bytes * BYTES_PER_WORD_BYTE + words * BYTES_PER_WORD + entries * BYTES_PER_ENTRY + FIXED_BYTES
        counted = [f"{word_bytes / MEGABYTE:.2f}", f"{words:,}", f"{entries:,}"]
        rows.append([passes, *counted, f"{run.memory:.0f}", f"{formula / MEGABYTE:.0f}", f"{run.cpu:.0f}"])
    print_table(["passes", "MB of distinct words", "words", "entries", "memory MB", "formula MB", "CPU s"], rows)


if __name__ == "__main__":
    main()
