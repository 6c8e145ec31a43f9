"""Text that makes tokenizers slow: one word without an end, runs, noise. Time must grow as the text does.

    python -m benchmarks.tokenizer_linearity --tokenizer DIR [--megabytes 1]

Each text is split and encoded at a quarter of the size and at the whole size by a tokenizer that remembers nothing;
`growth` is the ratio of CPU seconds per byte, 1 when time is in proportion. tiktoken and tokenizers, which do the same
with the same merges, are stopped after a minute; `fails` is a crash.
"""

import argparse
import base64
import random
import string
import subprocess
import sys
import time
from collections.abc import Callable

from benchmarks.measurement import installed, print_table

LIMIT_SECONDS = 60


def make_texts(size: int) -> dict[str, str]:
    """Return texts of `size` characters."""
    chance = random.Random(1)
    return {
        "one letter": "a" * size,
        "spaces": " " * size,
        "newlines": "\n" * size,
        "=": "=" * size,
        "base64": base64.b64encode(chance.randbytes(size)).decode()[:size],
        "random letters": "".join(chance.choices(string.ascii_lowercase, k=size)),
    }


def print_seconds(name: str, folder: str, text: str) -> None:
    """Print the CPU seconds that one encoder takes for a text."""
    encode = ENCODERS[name](folder)
    encode("def warm(): return 1")
    start = time.process_time()
    encode(text)
    print(time.process_time() - start)


def measure_apart(name: str, folder: str, text: str, size: int) -> float | str:
    """Return the CPU seconds that a process of its own took, or what became of it."""
    command = [sys.executable, "-m", "benchmarks.tokenizer_linearity", "--tokenizer", folder]
    command += ["--run", name, text, str(size)]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        return f"over {LIMIT_SECONDS}"
    return float(run.stdout) if run.returncode == 0 else "fails"


def load_dyadlm(folder: str) -> Callable[[str], object]:
    from tokenizer import Tokenizer

    encoder = Tokenizer.load(folder)
    return lambda text: encoder.encode_batch([text])


def load_tiktoken(folder: str) -> Callable[[str], object]:
    import tiktoken

    from tokenizer import Tokenizer

    ours = Tokenizer.load(folder)
    ranks = {token: rank for rank, token in enumerate(ours.token_bytes) if token}
    return tiktoken.Encoding("peer", pat_str=ours.pattern, mergeable_ranks=ranks, special_tokens={}).encode_ordinary


def load_tokenizers(folder: str) -> Callable[[str], object]:
    import tokenizers

    return tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json").encode


ENCODERS = {"DyadLM": load_dyadlm, "tiktoken": load_tiktoken, "tokenizers": load_tokenizers}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", required=True, metavar="DIR", help="folder of the tokenizer")
    parser.add_argument("--megabytes", type=float, default=1.0, help="size of the largest text (default 1)")
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        name, text, size = options.run
        print_seconds(name, options.tokenizer, make_texts(int(size))[text])
        return
    size = int(options.megabytes * 1e6)
    rows = []
    for encoder in ["DyadLM", *installed(["tiktoken", "tokenizers"])]:
        for text in make_texts(0):
            times = [measure_apart(encoder, options.tokenizer, text, part) for part in (size // 4, size)]
            numbers = [took for took in times if isinstance(took, float)]
            growth = f"{numbers[1] / numbers[0] / 4:.2f}" if len(numbers) == 2 else ""
            rows.append([encoder, text, *(took if isinstance(took, str) else f"{took:.3f}" for took in times), growth])
    print_table(["encoder", "text", "CPU s, a quarter", "CPU s, all", "growth"], rows)


if __name__ == "__main__":
    main()
