"""Documents to a token store, against a plain writer: Hugging Face tokenizers and a flat file of ids.

    python -m benchmarks.prepare PATH.parquet ... --tokenizer DIR [--repeats 3] [--passes 1,5] [--alone]

Both read the same Parquet files (a column text; repo, language and path are for the store alone) and encode by the same
artefact with one thread; the ids must be equal. The store has more to do: documents' positions and sources, digests,
and syncing to disk. Every run has a process of its own, the two in turns; ratios are medians over turns. With several
numbers of passes the files are copied, under other names, into a temporary folder: memory must not grow with them; with
--alone the plain writer, which takes several times as long, is left out.
"""

import argparse
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.measurement import measure, middle, paired_ratio, print_table, run_in_turns

PEERS = ("dyadlm", "tokenizers")
BATCH_ROWS = 1024


def prepare_store(paths: list[str], tokenizer: str, folder: Path) -> None:
    from dataservice import Store, prepare
    from tokenizer import CorpusConfig, Tokenizer

    def work() -> Path:
        corpus = CorpusConfig(paths=tuple(paths))
        prepare(corpus, Tokenizer.load(tokenizer), folder / "store", workers=1)
        return folder / "store"

    def pieces(path: Path) -> Iterator[np.ndarray]:
        store = Store.open(path)
        yield from (store.tokens(shard) for shard in range(len(store.shards)))

    end = Tokenizer.load(tokenizer).special_tokens["<eod>"]
    measure(work, lambda path: digest_ids(pieces(path), end))


def write_flat(paths: list[str], tokenizer: str, folder: Path) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import pyarrow.parquet as pq
    from tokenizers import Tokenizer

    rival = Tokenizer.from_file(str(Path(tokenizer, "tokenizer.json")))
    rival.encode_special_tokens = True  # names of special tokens in a text are text
    end: int = rival.token_to_id("<eod>")  # type: ignore[assignment]

    def work() -> Path:
        with (folder / "tokens.bin").open("wb") as file:
            for path in paths:
                for batch in pq.ParquetFile(path).iter_batches(BATCH_ROWS, columns=["text"]):
                    for encoding in rival.encode_batch_fast(batch["text"].to_pylist(), add_special_tokens=False):
                        np.array([end, *encoding.ids], np.uint16).tofile(file)
        return folder / "tokens.bin"

    measure(work, lambda path: digest_ids(iter([np.memmap(path, np.uint16)]), end))


def digest_ids(pieces: Iterator[np.ndarray], end: int) -> str:
    """Tokens and their digest, without the marks between documents."""
    state, count = hashlib.sha256(), 0
    for piece in pieces:
        ids = np.asarray(piece, np.uint16)
        ids = ids[ids != end]
        state.update(ids.data)
        count += len(ids)
    return f"{count} {state.hexdigest()}"


def copy_files(paths: list[str], passes: int, folder: Path) -> list[str]:
    """The files so many times, each under a name of its own."""
    copies = [folder / f"{turn}-{Path(path).name}" for turn in range(passes) for path in paths]
    for copy, path in zip(copies, paths * passes, strict=True):
        shutil.copyfile(path, copy)
    return [str(copy) for copy in copies]


def compare(paths: list[str], tokenizer: str, passes: int, repeats: int, peers: tuple[str, ...]) -> list[list[str]]:
    """A row of the table for each peer; ratios are to the last."""
    with tempfile.TemporaryDirectory() as folder:
        files = copy_files(paths, passes, Path(folder))
        runs = run_in_turns("benchmarks.prepare", peers, [*files, "--tokenizer", tokenizer], repeats)
    if len({run.digest for turns in runs.values() for run in turns}) != 1:
        raise SystemExit("ids must be equal, got different ones")
    tokens = int(runs["dyadlm"][0].digest.split()[0])
    rows = []
    for peer in peers:
        cpu = middle(runs[peer], "cpu")
        ratio = paired_ratio(runs[peer], runs[peers[-1]], "cpu")
        numbers = [f"{cpu:.1f}", f"{tokens / cpu / 1e6:.2f}", f"{ratio:.2f}", f"{middle(runs[peer], 'memory'):.0f}"]
        rows.append([peer, str(passes), f"{tokens:,}", *numbers])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="Parquet files with a column text")
    parser.add_argument("--tokenizer", required=True, metavar="DIR", help="artefact of python -m tokenizer train")
    parser.add_argument("--passes", default="1", help="times that the files are read, between commas (default 1)")
    parser.add_argument("--repeats", type=int, default=3, help="turns (default 3)")
    parser.add_argument("--alone", action="store_true", help="measure without the plain writer")
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        with tempfile.TemporaryDirectory() as folder:
            work = prepare_store if options.peer == "dyadlm" else write_flat
            work(options.paths, options.tokenizer, Path(folder))
        return
    rows = []
    for passes in map(int, options.passes.split(",")):
        rows += compare(
            options.paths, options.tokenizer, passes, options.repeats, PEERS[:1] if options.alone else PEERS
        )
    print_table(["writer", "passes", "tokens", "CPU s", "Mtok per CPU s", "CPU, ratio", "memory MB"], rows)


if __name__ == "__main__":
    main()
