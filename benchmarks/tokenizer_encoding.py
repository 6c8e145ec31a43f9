"""Encoding a corpus: DyadLM against its peers, with the same vocabulary and the same ids.

    pip install -e ".[peers]"          # and gigatoken if it is to be compared
    python -m tokenizer train PATH.parquet ... --output TOKENIZER --special-tokens "" --num-reserved 0
    python -m benchmarks.tokenizer_encoding PATH.parquet ... --tokenizer TOKENIZER [--repeats 3]

Each run has a process of its own, whose tokenizer is new and remembers nothing. Texts are read, and tokenizers loaded,
before the clock starts. Ids are what each library gives: arrays here, lists in tiktoken and gigatoken, Encoding objects
in tokenizers. CPU seconds are of all threads; a MB is a million bytes of UTF-8. Runs alternate, and `/ DyadLM` is the
median over turns of the ratio of speeds within a turn.
"""

import argparse
import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from benchmarks.measurement import installed, measure, middle, paired_ratio, print_table, read_texts, run_in_turns
from tokenizer import Tokenizer

PEERS = ("tiktoken", "tokenizers", "gigatoken")


def encode_dyadlm(texts: list[str], folder: str) -> None:
    encoder = Tokenizer.load(folder)
    measure(lambda: encoder.encode_batch(texts), lambda result: digest_ids([result[0]]))


def encode_tiktoken(texts: list[str], folder: str) -> None:
    import tiktoken

    ours = Tokenizer.load(folder)
    ranks = {token: rank for rank, token in enumerate(ours.token_bytes) if token}
    peer = tiktoken.Encoding("peer", pat_str=ours.pattern, mergeable_ranks=ranks, special_tokens={})
    measure(lambda: [peer.encode_ordinary(text) for text in texts], digest_ids)


def encode_tokenizers(texts: list[str], folder: str) -> None:
    import tokenizers

    peer = tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json")
    measure(lambda: peer.encode_batch_fast(texts), lambda result: digest_ids(encoding.ids for encoding in result))


def encode_gigatoken(texts: list[str], folder: str) -> None:
    import gigatoken  # pyright: ignore[reportMissingImports] (extra `benchmarks`)

    from tokenizer.splitting.patterns import PATTERNS

    content = json.loads(Path(folder, "tokenizer.json").read_bytes())
    split = content["pre_tokenizer"]["pretokenizers"][0]["pattern"]
    if split["Regex"] == PATTERNS["gpt4"]:  # gigatoken knows the other spelling of the same splits
        split["Regex"] = PATTERNS["llama3"]
    peer = gigatoken.Tokenizer.from_json(json.dumps(content))
    measure(lambda: peer.encode_batch_list(texts), digest_ids)


def digest_ids(rows: Iterable[list[int] | np.ndarray]) -> str:
    digest = hashlib.sha256()
    for row in rows:
        digest.update(np.asarray(row, np.uint32).tobytes())
    return digest.hexdigest()


ENCODERS = {
    "DyadLM": encode_dyadlm,
    "tiktoken": encode_tiktoken,
    "tokenizers": encode_tokenizers,
    "gigatoken": encode_gigatoken,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="Parquet files with columns text, repo, language")
    parser.add_argument("--tokenizer", required=True, metavar="DIR", help="folder of the tokenizer")
    parser.add_argument("--repeats", type=int, default=3, help="runs of every peer (default 3)")
    parser.add_argument("--peer", choices=ENCODERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    texts = read_texts(options.paths)[0]
    if options.peer:
        ENCODERS[options.peer](texts, options.tokenizer)
        return
    arguments = [*options.paths, "--tokenizer", options.tokenizer]
    results = run_in_turns("benchmarks.tokenizer_encoding", ["DyadLM", *installed(PEERS)], arguments, options.repeats)
    base = results["DyadLM"]
    size = sum(len(text.encode()) for text in texts) / 1e6
    print(f"{size:.1f} MB, medians of {options.repeats}, {os.cpu_count()} cores\n")
    rows = [
        [
            peer,
            f"{size / middle(runs, 'cpu'):.1f}",
            f"{size / middle(runs, 'wall'):.1f}",
            f"{middle(runs, 'memory'):.0f}",
            f"{1 / paired_ratio(runs, base, 'cpu'):.2f}",
            "yes" if runs[0].digest == base[0].digest else "no",
        ]
        for peer, runs in results.items()
    ]
    print_table(["encoder", "MB / CPU s", "MB / wall s", "memory MB", "/ DyadLM", "same ids"], rows)


if __name__ == "__main__":
    main()
