"""Made-up source files whose lines are all different, and a tokenizer that knows their words."""

import random

import pytest

import tokenizer as tokenizers
from evaluation.longcontext.haystack import Haystack
from tokenizer.corpus import Document

SYLLABLES = ("ba", "ke", "lo", "mi", "nu", "pra", "sto", "vé", "zu", "tri")


def made_up_source(rng: random.Random, number: int) -> str:
    """Functions with names of their own."""

    def word() -> str:
        return "".join(rng.choices(SYLLABLES, k=4))

    lines = []
    for _ in range(12):
        lines += [f"def {word()}({word()}):", f"    {word()} = {word()} + {word()}", f"    return {word()}", ""]
    return "\n".join(lines)


@pytest.fixture(scope="session")
def documents() -> list[Document]:
    rng = random.Random(0)
    return [Document(made_up_source(rng, n), f"repository{n % 5}", "py", f"package/part{n}.py") for n in range(40)]


@pytest.fixture(scope="session")
def tokenizer(documents):
    return tokenizers.train([document[:3] for document in documents], vocab_size=500, priority="F")


@pytest.fixture(scope="session")
def haystack(tokenizer, documents) -> Haystack:
    return Haystack(tokenizer, documents, tokenizer.special_tokens["<eod>"])
