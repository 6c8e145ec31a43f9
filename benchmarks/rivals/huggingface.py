"""UnigramLM and WordPiece of the library tokenizers, over bytes and behind our split."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tokenizer import Document
from tokenizer.merging.ties import byte_alphabet
from tokenizer.ragged import offsets_of
from tokenizer.splitting.patterns import PATTERNS

__all__ = ["HuggingFaceSubject", "train_unigram", "train_wordpiece"]

UNKNOWN = "[UNK]"
INSIDE = "▁"  # of tokens inside a word; "##" would make "###" both a "#" inside a word and three at its start


class HuggingFaceSubject:
    """A tokenizer of the library `tokenizers` whose tokens are in the letters of its byte alphabet."""

    def __init__(self, peer: Any, inside: str = "") -> None:
        self._peer = peer
        byte_of = {letter: byte for byte, letter in enumerate(byte_alphabet())}
        vocabulary = sorted(peer.get_vocab().items(), key=lambda item: item[1])
        self.token_bytes = [
            b"" if token == UNKNOWN else bytes(byte_of[letter] for letter in token.removeprefix(inside))
            for token, _ in vocabulary
        ]

    def encode_batch(self, texts: Sequence[str], /) -> tuple[np.ndarray, np.ndarray]:
        encodings = self._peer.encode_batch_fast(list(texts), add_special_tokens=False)
        rows = [np.array(encoding.ids, np.int64) for encoding in encodings]
        return np.concatenate(rows), offsets_of(np.array([len(row) for row in rows]))


def train_unigram(documents: Sequence[Document], vocab_size: int) -> HuggingFaceSubject:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    peer = Tokenizer(models.Unigram())
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.UnigramTrainer(vocab_size=vocab_size, initial_alphabet=alphabet, show_progress=False)
    return HuggingFaceSubject(_train(peer, trainer, documents))


def train_wordpiece(documents: Sequence[Document], vocab_size: int) -> HuggingFaceSubject:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    inside: dict[str, Any] = {"continuing_subword_prefix": INSIDE}
    # Its search takes the cube of a word's length, so longer words stay unknown: the table tells how many bytes.
    peer = Tokenizer(models.WordPiece(unk_token=UNKNOWN, max_input_chars_per_word=1000, **inside))
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[UNKNOWN],
        show_progress=False,
        **inside,
    )
    return HuggingFaceSubject(_train(peer, trainer, documents), inside=INSIDE)


def _train(peer: Any, trainer: Any, documents: Sequence[Document]) -> Any:
    from tokenizers import Regex, pre_tokenizers

    # Oniguruma reads {1,3}+ as a repetition of a repetition, so the pattern is spelled as llama3's: the same splits.
    split = pre_tokenizers.Split(Regex(PATTERNS["llama3"]), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    peer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    peer.train_from_iterator((document.text for document in documents), trainer)
    return peer
