"""Training a tokenizer: DyadLM (plain BPE, and SA-BPE) against its peers, on the same texts.

    pip install -e ".[peers]"          # and bpeasy, gigatoken if they are to be compared
    python -m benchmarks.tokenizer_training PATH.parquet ... [--repeats 3] [--vocab-size 32768]

Each run has a process of its own. Texts are read, and libraries imported, before the clock starts, for every peer
alike; memory is what the process holds at most beyond that. CPU seconds are of all threads. Runs alternate, and
`CPU / DyadLM F` is the median over turns of the ratio within a turn. The pattern is gpt4 (gigatoken: its own of GPT-2).
`same as F` says whether a peer's tokens are DyadLM's: rustbpe breaks ties as `ties=ids`, tokenizers as `ties=hf`.
"""

import argparse
import hashlib
import os
from collections.abc import Callable, Iterable

from benchmarks.measurement import installed, measure, middle, paired_ratio, print_table, read_texts, run_in_turns

PEERS = ("rustbpe", "tokenizers", "bpeasy", "gigatoken")
OURS = {"DyadLM F": "F", "DyadLM F*logR*L": "F*logR*L"}


def train_dyadlm(paths: list[str], vocab_size: int, priority: str) -> None:
    from tokenizer import train

    documents = list(zip(*read_texts(paths), strict=True))
    options = {"vocab_size": vocab_size, "priority": priority, "special_tokens": (), "num_reserved": 0}
    measure(lambda: train(documents, **options), lambda result: digest_tokens(result.token_bytes))


def train_rustbpe(paths: list[str], vocab_size: int) -> None:
    import rustbpe

    from tokenizer.splitting.patterns import PATTERNS

    texts = read_texts(paths)[0]
    peer = rustbpe.Tokenizer()  # pyright: ignore[reportAttributeAccessIssue] (no stubs)
    measure(
        lambda: peer.train_from_iterator(iter(texts), vocab_size=vocab_size, pattern=PATTERNS["gpt4"]),
        lambda _: digest_tokens(bytes(token) for token, _ in peer.get_mergeable_ranks()),
    )


def train_tokenizers(paths: list[str], vocab_size: int) -> None:
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    from tokenizer.splitting.patterns import PATTERNS

    texts = read_texts(paths)[0]
    peer = Tokenizer(models.BPE())
    # Oniguruma reads {1,3}+ as a repetition of a repetition, so the pattern is spelled as llama3's: the same splits.
    split = pre_tokenizers.Split(Regex(PATTERNS["llama3"]), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    peer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, initial_alphabet=alphabet, show_progress=False)
    measure(lambda: peer.train_from_iterator(texts, trainer), lambda _: digest_tokens(spelled_bytes(peer.get_vocab())))


def train_bpeasy(paths: list[str], vocab_size: int) -> None:
    import bpeasy  # pyright: ignore[reportMissingImports] (extra `benchmarks`)

    from tokenizer.splitting.patterns import PATTERNS

    texts = read_texts(paths)[0]
    measure(lambda: bpeasy.train_bpe(iter(texts), PATTERNS["llama3"], 128, vocab_size), digest_tokens)


def train_gigatoken(paths: list[str], vocab_size: int) -> None:
    import gigatoken  # pyright: ignore[reportMissingImports] (extra `benchmarks`)

    separator = b"\0\0\0"
    data = separator.join(text.encode() for text in read_texts(paths)[0])
    measure(lambda: gigatoken.train_bpe(data, vocab_size, [], separator=separator), lambda _: "another pattern")


def spelled_bytes(vocabulary: Iterable[str]) -> list[bytes]:
    """Turn tokens in the letters of Hugging Face's byte alphabet back into bytes."""
    from tokenizer.merging.ties import byte_alphabet

    byte_of = {letter: byte for byte, letter in enumerate(byte_alphabet())}
    return [bytes(byte_of[letter] for letter in token) for token in vocabulary]


def digest_tokens(tokens: Iterable[bytes]) -> str:
    return hashlib.sha256(b"\0".join(sorted(tokens))).hexdigest()


TRAINERS: dict[str, Callable[[list[str], int], None]] = {
    "rustbpe": train_rustbpe,
    "tokenizers": train_tokenizers,
    "bpeasy": train_bpeasy,
    "gigatoken": train_gigatoken,
    **{
        name: lambda paths, size, priority=priority: train_dyadlm(paths, size, priority)
        for name, priority in OURS.items()
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="Parquet files with columns text, repo, language")
    parser.add_argument("--repeats", type=int, default=3, help="runs of every peer (default 3)")
    parser.add_argument("--vocab-size", type=int, default=32768, help="tokens, 256 bytes among them (default 32768)")
    parser.add_argument("--peer", choices=TRAINERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        TRAINERS[options.peer](options.paths, options.vocab_size)
        return
    peers = [*OURS, *installed(PEERS)]
    arguments = [*options.paths, "--vocab-size", str(options.vocab_size)]
    results = run_in_turns("benchmarks.tokenizer_training", peers, arguments, options.repeats)
    base = results["DyadLM F"]
    size = sum(len(text.encode()) for text in read_texts(options.paths)[0]) / 1e6
    print(f"{size:.1f} MB, {options.vocab_size} tokens, medians of {options.repeats}, {os.cpu_count()} cores\n")
    rows = [
        [
            peer,
            f"{middle(runs, 'cpu'):.1f}",
            f"{middle(runs, 'wall'):.1f}",
            f"{middle(runs, 'memory'):.0f}",
            f"{paired_ratio(runs, base, 'cpu'):.2f}",
            "yes" if runs[0].digest == base[0].digest else "no",
        ]
        for peer, runs in results.items()
    ]
    print_table(["trainer", "CPU s", "wall s", "memory MB", "CPU / DyadLM F", "same as F"], rows)


if __name__ == "__main__":
    main()
