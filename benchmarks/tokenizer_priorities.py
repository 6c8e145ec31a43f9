"""Every priority and threshold of SA-BPE on one corpus, measured on another: Tables 2 and 3 of arXiv 2604.14053.

    python -m benchmarks.tokenizer_priorities --train PATH... --on PATH... --output docs/tokenizers.md

Words are counted once and merged once a setting (6 to 9 CPU seconds for 70 MB); each vocabulary is measured on the
documents of `--on`. What has been measured is kept under `--cache`, so that an interrupted run goes on where it was.
The tables replace those of an earlier run in the output; what else it says stays.
"""

import argparse
import hashlib
import json
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.document import write_part
from tokenizer import CorpusConfig, Document, Tokenizer, TokenizerConfig
from tokenizer.corpus import list_shards, read_shard
from tokenizer.counting.counts import WordCounts, count_words
from tokenizer.measures import evaluate
from tokenizer.measures.page import Table
from tokenizer.measures.subject import learned_tokens
from tokenizer.measures.table import to_markdown
from tokenizer.merging.priorities import PRIORITIES
from tokenizer.merging.trainer import merge_words
from tokenizer.output import write_file

REPOSITORIES = (1, 2, 4, 8, 16, 30)
LANGUAGES = (1, 2, 3, 4, 6, 8)
COLUMNS = ("tokens", "compression", "coverage", "token length", "3-digit numbers", "steps", "Gini", "not in F")


class Setting(NamedTuple):
    """What a vocabulary is trained with."""

    priority: str
    min_repositories: int
    min_languages: int


def make_tokenizer(counts: WordCounts, setting: Setting, config: TokenizerConfig) -> Tokenizer:
    """The vocabulary of a setting, in the size of the configuration or less where pairs run out."""
    merges = merge_words(counts, num_merges=config.num_merges, **setting._asdict())
    return Tokenizer(merges.pairs, config.all_special_tokens, config.pattern, merges=merges)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", nargs="+", required=True, metavar="PATH", help="documents to train on")
    parser.add_argument("--on", nargs="+", required=True, metavar="PATH", help="documents to measure on")
    parser.add_argument("--output", metavar="FILE.md", help="document to write the tables into; none: print them")
    parser.add_argument("--vocab-size", type=int, default=32768, help="tokens, special ones too (default 32768)")
    parser.add_argument("--repositories", type=int, nargs="+", default=REPOSITORIES, help="thresholds of R")
    parser.add_argument("--languages", type=int, nargs="+", default=LANGUAGES, help="thresholds of L")
    parser.add_argument("--cache", default="cache/tokenizer_priorities", help="folder for what has been measured")
    options = parser.parse_args()
    by_repositories = [Setting(priority, least, 1) for priority in PRIORITIES for least in options.repositories]
    by_languages = [Setting(priority, 1, least) for priority in PRIORITIES for least in options.languages]
    study = Study(options.train, options.on, options.vocab_size, Path(options.cache))
    results = study.run(dict.fromkeys([Setting("F", 1, 1), *by_repositories, *by_languages]))
    text = _describe(results, by_repositories, by_languages, options.vocab_size)
    if options.output:
        write_part(Path(options.output), "benchmarks.tokenizer_priorities", text)
        print(f"wrote {options.output}", file=sys.stderr)
    else:
        print(text)


class Study:
    """Trains and measures settings that have not been measured yet."""

    def __init__(self, train: Sequence[str], on: Sequence[str], vocab_size: int, cache: Path) -> None:
        self._train, self._on = CorpusConfig(paths=tuple(train)), CorpusConfig(paths=tuple(on))
        self._config = TokenizerConfig(vocab_size=vocab_size)
        inputs = [shard.identity for corpus in (self._train, self._on) for shard in list_shards(corpus)]
        digest = hashlib.sha256(json.dumps([inputs, vocab_size]).encode()).hexdigest()[:16]
        self._cache = cache / digest
        self._cache.mkdir(parents=True, exist_ok=True)

    def run(self, settings: Iterable[Setting]) -> dict[Setting, dict[str, Any]]:
        """Return the measures of each setting, as JSON."""
        files = {
            setting: self._cache / f"{setting.priority}-{setting.min_repositories}-{setting.min_languages}.json"
            for setting in settings
        }
        missing = [setting for setting, file in files.items() if not file.exists()]
        if missing:
            counts = count_words(_read(self._train), self._config.pattern)
            plain = set(learned_tokens(make_tokenizer(counts, Setting("F", 1, 1), self._config)))
            for number, setting in enumerate(missing, 1):
                print(f"setting {number} of {len(missing)}: {setting}", file=sys.stderr, flush=True)
                measures = self._measure(make_tokenizer(counts, setting, self._config), plain)
                write_file(files[setting], json.dumps(measures).encode())
        return {setting: json.loads(file.read_bytes()) for setting, file in files.items()}

    def _measure(self, tokenizer: Tokenizer, plain: set[bytes]) -> dict[str, Any]:
        evaluation = evaluate({"": tokenizer}, _read(self._on)).to_json()
        different = len(set(learned_tokens(tokenizer)) - plain)
        sizes = {name: evaluation[name] for name in ("documents", "bytes")}
        return evaluation["tokenizers"][0] | sizes | {"not_in_f": different}


def _read(corpus: CorpusConfig) -> Iterator[Document]:
    for shard in list_shards(corpus):
        yield from read_shard(shard, corpus)


def _describe(
    results: dict[Setting, dict[str, Any]],
    by_repositories: Sequence[Setting],
    by_languages: Sequence[Setting],
    vocab_size: int,
) -> str:
    plain = results[Setting("F", 1, 1)]
    arguments = ["--train", "TRAIN", "--on", "EVAL", "--vocab-size", str(vocab_size)]
    tables = [
        Table(
            columns=("priority", "R at least", *COLUMNS),
            rows=[(f"`{s.priority}`", str(s.min_repositories), *_cells(results[s])) for s in by_repositories],
            caption="Priorities and thresholds of R, the repositories that hold a pair:",
        ),
        Table(
            columns=("priority", "L at least", *COLUMNS),
            rows=[(f"`{s.priority}`", str(s.min_languages), *_cells(results[s])) for s in by_languages],
            caption="Priorities and thresholds of L, the languages that hold a pair:",
        ),
    ]
    size = f"Measured on {plain['bytes'] / 1e6:.2f} MB in {plain['documents']:,} documents, made by"
    command = f"```\npython -m benchmarks.tokenizer_priorities {shlex.join(arguments)}\n```"
    return "\n".join([size, "", command, "", *map(to_markdown, tables)])


def _cells(measures: dict[str, Any]) -> list[str]:
    gini = measures["gini"]
    return [
        f"{measures['vocab_size']:,}",
        f"{measures['compression_rate']:.4f}",
        f"{measures['coverage']:,}",
        f"{measures['mean_token_length']:.3f}",
        str(measures["three_digit_numbers"]),
        f"{measures['training_steps']:,}",
        "-" if gini is None else f"{gini:.4f}",
        f"{measures['not_in_f']:,}",
    ]


if __name__ == "__main__":
    main()
