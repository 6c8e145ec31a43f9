"""PickyBPE (arXiv 2409.04599) from a checkout of github.com/pchizhov/picky_bpe, fed with our words."""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.rivals.words import encode_by_words, spell_words
from tokenizer import Document
from tokenizer.counting.counts import count_words
from tokenizer.merging.ties import byte_alphabet

__all__ = ["PickySubject", "train_picky_bpe"]

PATTERN = "gpt4"
THRESHOLD = 0.9  # of "intersection over self" above which a token is removed: the example of its documentation
NUM_SPECIAL = 4  # it always has <PAD>, <UNK>, <BOS>, <EOS>


class PickySubject:
    """Its model, over words in the letters of the byte alphabet."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._known: dict[str, list[int]] = {}
        byte_of = {letter: byte for byte, letter in enumerate(byte_alphabet())}
        numbers = {int(number): place for number, place in model.id2int.items()}
        self.token_bytes = [b""] * len(numbers)
        for number, place in numbers.items():
            token = model.id2token[number]
            self.token_bytes[place] = b"" if token.special else bytes(byte_of[letter] for letter in token.str)

    def encode_batch(self, texts: Sequence[str], /) -> tuple[np.ndarray, np.ndarray]:
        return encode_by_words(texts, PATTERN, self._encode_word, self._known)

    def _encode_word(self, word: str) -> list[int]:
        return [self._model.id2int[str(token.id)] for token in self._model._encode_word_by_events(word)]


def train_picky_bpe(documents: Sequence[Document], vocab_size: int, folder: Path) -> PickySubject:
    sys.path.insert(0, str(folder))
    from bpe_trainer import BPE  # pyright: ignore[reportMissingImports]
    from language import Word  # pyright: ignore[reportMissingImports]
    from picky_tokenize import BPEModel  # pyright: ignore[reportMissingImports]

    counts = count_words(documents, PATTERN)
    words = list(zip(spell_words(counts.data, counts.offsets), counts.counts.tolist(), strict=True))
    words += [(letter, 0) for letter in byte_alphabet()]  # every byte is a token

    class Trainer(BPE):
        @staticmethod
        def _get_words(file: str) -> list[Any]:
            return [Word(number, word, count) for number, (word, count) in enumerate(words)]

    with tempfile.TemporaryDirectory() as place:
        model = f"{place}/model.json"
        Trainer(vocab_size + NUM_SPECIAL, coverage=1.0, threshold=THRESHOLD).fit("", model, logging_step=1000)
        return PickySubject(BPEModel(model))
