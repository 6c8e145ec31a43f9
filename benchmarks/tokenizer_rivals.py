"""SA-BPE against other ways to make a vocabulary, on the same text and split: Table 4 of arXiv 2604.14053.

    python -m benchmarks.tokenizer_rivals --train PATH... --on PATH... --output docs/tokenizers.md
        [--picky-bpe DIR] [--boundless-bpe DIR] [--train-share 0.02 --on-share 0.02 --vocab-size 4096]

All have the same number of tokens, all 256 bytes among them, and split text as gpt4 does. UnigramLM and WordPiece are
those of the library tokenizers (WordPiece marks tokens inside a word, so it has some byte strings twice).
PickyBPE (github.com/pchizhov/picky_bpe) and BoundlessBPE (github.com/kensho-technologies/boundlessbpe) are run from
checkouts of their own; they are plain Python, BoundlessBPE so slow that all are compared on a share of the documents.
What has been measured is kept under `--cache`. CPU seconds are those of training, of all threads, text already read.
"""

import argparse
import hashlib
import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.document import write_part
from benchmarks.rivals.boundless_bpe import train_boundless_bpe
from benchmarks.rivals.huggingface import train_unigram, train_wordpiece
from benchmarks.rivals.picky_bpe import train_picky_bpe
from tokenizer import CorpusConfig, Document, train
from tokenizer.corpus import is_held_out, list_shards, read_shard
from tokenizer.measures import Subject, evaluate
from tokenizer.measures.page import Table
from tokenizer.measures.table import to_markdown
from tokenizer.output import write_file

COLUMNS = ("compression", "coverage", "token length", "3-digit numbers", "Gini", "most name parts", "training, CPU s")
Trainer = Callable[[list[Document], int], Subject]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", nargs="+", required=True, metavar="PATH", help="documents to train on")
    parser.add_argument("--on", nargs="+", required=True, metavar="PATH", help="documents to measure on")
    parser.add_argument("--output", metavar="FILE.md", help="document to write the table into; none: print it")
    parser.add_argument("--vocab-size", type=int, default=32768, help="tokens (default 32768)")
    parser.add_argument("--train-share", type=float, default=1.0, help="share of the documents to train on (default 1)")
    parser.add_argument("--on-share", type=float, default=1.0, help="share of the documents to measure on (default 1)")
    parser.add_argument("--picky-bpe", metavar="DIR", help="checkout of pchizhov/picky_bpe")
    parser.add_argument("--boundless-bpe", metavar="DIR", help="checkout of kensho-technologies/boundlessbpe")
    parser.add_argument("--cache", default="cache/tokenizer_rivals", help="folder for what has been measured")
    options = parser.parse_args()
    train_on, on = _read(options.train, options.train_share), _read(options.on, options.on_share)
    folder = Path(options.cache) / _digest([train_on, on], options.vocab_size)
    folder.mkdir(parents=True, exist_ok=True)
    results = {
        name: _measure(name, trainer, train_on, on, options.vocab_size, folder / f"{name}.json")
        for name, trainer in _trainers(options.picky_bpe, options.boundless_bpe).items()
    }
    text = _describe(results, train_on, options)
    if options.output:
        write_part(Path(options.output), f"benchmarks.tokenizer_rivals, {options.vocab_size} tokens", text)
        print(f"wrote {options.output}", file=sys.stderr)
    else:
        print(text)


def _trainers(picky_bpe: str | None, boundless_bpe: str | None) -> dict[str, Trainer]:
    trainers: dict[str, Trainer] = {
        priority: lambda documents, size, priority=priority: train(
            documents, vocab_size=size, priority=priority, special_tokens=(), num_reserved=0
        )
        for priority in ("F", "F*logR", "F*logR*L")
    }
    trainers |= {"UnigramLM": train_unigram, "WordPiece": train_wordpiece}
    if picky_bpe:
        trainers["PickyBPE"] = lambda documents, size: train_picky_bpe(documents, size, Path(picky_bpe))
    if boundless_bpe:
        trainers["BoundlessBPE"] = lambda documents, size: train_boundless_bpe(documents, size, Path(boundless_bpe))
    return trainers


def _measure(
    name: str, trainer: Trainer, documents: list[Document], on: list[Document], vocab_size: int, file: Path
) -> dict[str, Any]:
    """Train and measure, or return what an earlier run has found."""
    if not file.exists():
        print(f"{name}: training", file=sys.stderr, flush=True)
        start = time.process_time()
        subject = trainer(documents, vocab_size)
        seconds = time.process_time() - start
        print(f"{name}: {seconds:.1f} CPU seconds; measuring", file=sys.stderr, flush=True)
        measures = evaluate({name: subject}, on).to_json()
        sizes = {key: measures[key] for key in ("documents", "bytes")}
        result = measures["tokenizers"][0] | sizes | {"training_cpu_seconds": seconds}
        write_file(file, json.dumps(result).encode())
    return json.loads(file.read_bytes())


def _read(paths: list[str], share: float) -> list[Document]:
    """Read a share of the documents, chosen by their text."""
    config = CorpusConfig(paths=tuple(paths), held_out_fraction=share if share < 1 else 0.0, held_out_by="document")
    documents: Iterator[Document] = (
        document for shard in list_shards(config) for document in read_shard(shard, config)
    )
    return [document for document in documents if share >= 1 or is_held_out(document, config)]


def _digest(corpora: list[list[Document]], vocab_size: int) -> str:
    digest = hashlib.sha256(str(vocab_size).encode())
    for documents in corpora:
        for document in documents:
            digest.update(document.text.encode() + b"\0")
    return digest.hexdigest()[:16]


def _describe(results: dict[str, dict[str, Any]], train_on: list[Document], options: argparse.Namespace) -> str:
    plain = results["F"]
    num_bytes = sum(len(document.text.encode()) for document in train_on)
    arguments = ["--train", "TRAIN", "--on", "EVAL", "--vocab-size", str(options.vocab_size)]
    for name in ("train_share", "on_share"):
        if getattr(options, name) < 1:
            arguments += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    arguments += ["--picky-bpe", "DIR"] * bool(options.picky_bpe) + ["--boundless-bpe", "DIR"] * bool(
        options.boundless_bpe
    )
    size = (
        f"{options.vocab_size:,} tokens from {num_bytes / 1e6:.2f} MB in {len(train_on):,} documents, measured on "
        f"{plain['bytes'] / 1e6:.2f} MB in {plain['documents']:,}, made by"
    )
    command = f"```\npython -m benchmarks.tokenizer_rivals {shlex.join(arguments)}\n```"
    table = Table(
        columns=("trainer", *COLUMNS),
        rows=[(f"`{name}`" if one["fingerprint"] else name, *_cells(one)) for name, one in results.items()],
    )
    lost = [
        f"{name} has no tokens for {one['lost_bytes']:,} bytes." for name, one in results.items() if one["lost_bytes"]
    ]
    return "\n".join([size, "", command, "", to_markdown(table), *lost])


def _cells(measures: dict[str, Any]) -> list[str]:
    gini = measures["gini"]
    return [
        f"{measures['compression_rate']:.4f}",
        f"{measures['coverage']:,}",
        f"{measures['mean_token_length']:.3f}",
        str(measures["three_digit_numbers"]),
        "-" if gini is None else f"{gini:.4f}",
        str(len(measures["name_parts"]) - 1),
        f"{measures['training_cpu_seconds']:.0f}",
    ]


if __name__ == "__main__":
    main()
