"""Prompts that any model which can copy answers with the token itself, and documents that teach a small one to.

A line is written again: the token stands alone on its line, where every split pattern lets a word begin, so it is
read as in ordinary text whatever it is made of. Prompts differ in their last tokens alone, so a model reads what they
share once.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from evaluation.errors import EvaluationError
from tokenizer import Tokenizer

__all__ = ["NUM_STEPS", "Prompt", "choose_words", "make_prompts", "repetition_documents"]

NUM_STEPS = 3
"""Tokens that a model goes on with; the token asked for may be any of them."""
NUM_EXAMPLES = (20, 50)
PAIRS = ("Each line below is written twice.\n\n", "One line, and then the same line once more:\n\n")
ENDLESS = "The same line again and again:\n\n"
SHOWN = 4  # lines of the token in the prompt without examples


class Prompt(NamedTuple):
    """What a model reads before it goes on."""

    shared: tuple[int, ...]
    """Ids that are the same for every token."""
    ending: tuple[int | None, ...]
    """Ids after these; None: the token."""
    num_examples: int

    def ids(self, token: int) -> list[int]:
        """The whole prompt for a token."""
        return [*self.shared, *(token if number is None else number for number in self.ending)]


def choose_words(tokenizer: Tokenizer, most_frequent: Sequence[int] | np.ndarray) -> list[int]:
    """Tokens for the examples: of the most frequent ones, those of Latin letters alone, the longer half of 100."""
    letters = [number for number in map(int, most_frequent) if tokenizer.token_bytes[number].isalpha()][:100]
    longest = set(sorted(letters, key=lambda number: -len(tokenizer.token_bytes[number]))[: max(NUM_EXAMPLES)])
    return [number for number in letters if number in longest]


def make_prompts(tokenizer: Tokenizer, words: Sequence[int], max_length: int, begin: int) -> list[Prompt]:
    """The three prompts: with 20 examples, with none, and with 50, or as many as `max_length` tokens have room for.

    Args:
        tokenizer: That of the model.
        words: Tokens for the examples, taken in turn.
        max_length: Tokens of the longest sequence that the model knows.
        begin: The special token in front.
    """
    line, blank = tokenizer.encode("\n"), tokenizer.encode("\n\n")
    endless = Prompt((begin, *tokenizer.encode(ENDLESS)), (None, *line) * SHOWN, 0)
    prompts = []
    for title, wanted in zip(PAIRS, NUM_EXAMPLES, strict=True):
        shared, ending = [begin, *tokenizer.encode(title)], (None, *line)
        room = (max_length - len(shared) - len(ending) - NUM_STEPS) // (2 + len(line) + len(blank))
        fitting = max(0, min(wanted, room)) if words else 0
        for example in range(fitting):
            word = words[example % len(words)]
            shared += [word, *line, word, *blank]
        prompts.append(Prompt(tuple(shared), ending, fitting))
    return [prompts[0], endless, prompts[1]]


def repetition_documents(texts: Iterable[str], pattern: str, num_documents: int, seed: int = 0) -> Iterator[str]:
    """Yield documents like the prompts, of words of `texts` as often as they are there, drawn by (seed, number).

    A small model cannot copy unless it was taught to, and then says nothing of its tokens: mix these, about 1% of
    the text, into what it is trained on. Every word comes from the texts, so no token is seen that they do not have.

    Args:
        texts: Documents of the training data.
        pattern: That of the tokenizer, which cuts them into words.
        num_documents: How many to make; three in four are pairs, one is of one line again and again.
        seed: Of the draws.

    Raises:
        EvaluationError: the texts have no words.
    """
    from tokenizer.splitting.documents import split_documents

    words = split_documents(list(texts), pattern)
    chosen, data = _lines(words.data, words.starts), words.data.tobytes()
    if not len(chosen):
        raise EvaluationError("texts must have words to repeat, got none; give documents of the training data")
    for number in range(num_documents):
        draw = np.random.default_rng((seed, number))
        count = int(draw.integers(1, max(NUM_EXAMPLES) + 1))
        places = chosen[draw.integers(len(chosen), size=count)]
        lines = [data[words.starts[place] : words.starts[place + 1]].decode() for place in places]
        if number % 4 == 3:
            yield ENDLESS + f"{lines[0]}\n" * (SHOWN + count)
        else:
            yield PAIRS[number % 2] + "".join(f"{line}\n{line}\n\n" for line in lines)


def _lines(data: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Numbers of the words, int64, that show on a line of their own: nothing ends it, and not all of it is space."""
    ends_line, shows = (np.concatenate(([0], np.cumsum(kind))) for kind in (np.isin(data, (10, 13)), data > 32))
    return np.flatnonzero((np.diff(ends_line[starts]) == 0) & (np.diff(shows[starts]) > 0))
