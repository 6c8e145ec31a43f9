"""Tokenizers measured on the same documents, and compared."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tokenizer.measures.differences import count_differences
from tokenizer.measures.inequality import gini
from tokenizer.measures.names import count_name_parts
from tokenizer.measures.numbers import count_three_digit_numbers
from tokenizer.measures.subject import Subject, learned_tokens
from tokenizer.measures.usage import TextSize, Usage, measure_usage
from tokenizer.progress import Progress
from tokenizer.vocabulary import Tokenizer

__all__ = ["Evaluation", "LanguageMeasures", "TokenizerMeasures", "evaluate"]


@dataclass(frozen=True, kw_only=True)
class LanguageMeasures:
    """What a tokenizer makes of the documents of one language."""

    language: str
    """"" for documents that have none."""
    num_documents: int
    num_bytes: int
    """Of UTF-8."""
    num_tokens: int
    coverage: int
    """Distinct tokens that occur."""

    @property
    def compression_rate(self) -> float | None:
        """Bytes a token; None without tokens."""
        return self.num_bytes / self.num_tokens if self.num_tokens else None


@dataclass(frozen=True, kw_only=True)
class TokenizerMeasures:
    """The measures of SA-BPE (arXiv 2604.14053) for one tokenizer."""

    name: str
    fingerprint: str | None
    """Of a tokenizer of ours; None for any other."""
    vocab_size: int
    """Tokens in all, special ones too."""
    num_learned: int
    """Byte tokens and learned ones: those that stand for text."""
    num_tokens: int
    """That the text takes."""
    compression_rate: float
    """Bytes of text a token."""
    coverage: int
    """Distinct byte and learned tokens that occur."""
    mean_token_length: float
    """Bytes, over the byte and learned tokens, each counted once."""
    three_digit_numbers: int
    """Of 100 to 999, how many are tokens."""
    gini: float | None
    """Gini index of the compression rates of the languages that have a name; None for fewer than two."""
    training_steps: int | None
    """Merges, and pairs skipped on reaching the top; None for a tokenizer that was not trained here."""
    name_parts: tuple[int, ...]
    """Byte and learned tokens with 0, 1, 2 ... parts of a name: getHTTPStatus has 3."""
    longest_name: bytes
    """The token of the most parts, of these the earliest."""
    token_lengths: tuple[int, ...]
    """Byte and learned tokens of 0, 1, 2 ... bytes."""
    lost_bytes: int
    """Bytes of text that no token stands for: 0 but for tokenizers with an unknown token."""
    languages: tuple[LanguageMeasures, ...]
    """In the order of their names."""
    token_counts: np.ndarray = field(compare=False, repr=False)
    """int64[vocab_size]: how often each token occurs."""
    cpu_seconds: float = field(compare=False)
    """Time of encoding the text, of all threads; depends on the machine."""

    @property
    def coverage_share(self) -> float:
        """Share of the byte and learned tokens that occur."""
        return self.coverage / self.num_learned


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Measures of tokenizers on the same text."""

    num_documents: int
    num_bytes: int
    """Of UTF-8."""
    tokenizers: tuple[TokenizerMeasures, ...]
    differences: tuple[tuple[int, ...], ...]
    """[a][b]: distinct tokens of tokenizer a that tokenizer b has not."""

    def to_json(self) -> dict[str, Any]:
        """Return plain values; all but those under `depends_on_machine` are the same for the same text, anywhere."""
        return {
            "documents": self.num_documents,
            "bytes": self.num_bytes,
            "tokenizers": [_tokenizer_json(measures, self.num_bytes) for measures in self.tokenizers],
            "differences": [list(row) for row in self.differences],
        }


def evaluate(
    tokenizers: Mapping[str, Subject], documents: Iterable[Sequence[str]], *, progress: Progress | None = None
) -> Evaluation:
    """Measure tokenizers on documents, which are read once and encoded once by each.

    Args:
        tokenizers: By name; `Tokenizer` or an adapter around any other.
        documents: (text, repository, language, ...) each, as `Document` is. Any number: memory holds a block of them.
        progress: Called as progress("encode", bytes, None).

    Raises TokenizerError when there is no text.
    """
    subjects = list(tokenizers.values())
    size, usages = measure_usage(subjects, documents, progress=progress)
    measures = [
        _measure(name, subject, size, usage) for (name, subject), usage in zip(tokenizers.items(), usages, strict=True)
    ]
    return Evaluation(
        num_documents=int(size.num_documents.sum()),
        num_bytes=int(size.num_bytes.sum()),
        tokenizers=tuple(measures),
        differences=tuple(map(tuple, count_differences([learned_tokens(subject) for subject in subjects]))),
    )


def _measure(name: str, subject: Subject, size: TextSize, usage: Usage) -> TokenizerMeasures:
    learned = learned_tokens(subject)
    own = subject if isinstance(subject, Tokenizer) else None
    # lengths: (vocab_size,), 0 for special tokens
    lengths = np.array([len(token) for token in subject.token_bytes])
    parts = count_name_parts(learned)
    num_bytes, num_tokens = int(size.num_bytes.sum()), int(usage.num_tokens.sum())
    languages = _measure_languages(size, usage, lengths > 0)
    rates = [row.compression_rate for row in languages if row.language and row.compression_rate]
    return TokenizerMeasures(
        name=name,
        fingerprint=own.fingerprint if own else None,
        vocab_size=len(lengths),
        num_learned=len(learned),
        num_tokens=num_tokens,
        compression_rate=num_bytes / num_tokens,
        coverage=int(((usage.token_counts > 0) & (lengths > 0)).sum()),
        mean_token_length=float(lengths.sum() / len(learned)),
        three_digit_numbers=count_three_digit_numbers(learned),
        gini=gini(rates),
        training_steps=own.merges.steps if own and own.merges else None,
        name_parts=_histogram(parts),
        longest_name=learned[int(np.argmax(parts))],
        token_lengths=_histogram(lengths[lengths > 0]),
        lost_bytes=num_bytes - int(usage.token_counts @ lengths),
        languages=languages,
        token_counts=usage.token_counts,
        cpu_seconds=usage.cpu_seconds,
    )


def _measure_languages(size: TextSize, usage: Usage, is_learned: np.ndarray) -> tuple[LanguageMeasures, ...]:
    return tuple(
        LanguageMeasures(
            language=language,
            num_documents=int(size.num_documents[row]),
            num_bytes=int(size.num_bytes[row]),
            num_tokens=int(usage.num_tokens[row]),
            coverage=int((usage.is_used[row] & is_learned).sum()),
        )
        for row, language in enumerate(size.languages)
    )


def _histogram(values: Sequence[int] | np.ndarray) -> tuple[int, ...]:
    return tuple(np.bincount(values).tolist())


def _tokenizer_json(measures: TokenizerMeasures, num_bytes: int) -> dict[str, Any]:
    return {
        "name": measures.name,
        "fingerprint": measures.fingerprint,
        "vocab_size": measures.vocab_size,
        "learned_tokens": measures.num_learned,
        "tokens": measures.num_tokens,
        "compression_rate": measures.compression_rate,
        "coverage": measures.coverage,
        "coverage_share": measures.coverage_share,
        "mean_token_length": measures.mean_token_length,
        "three_digit_numbers": measures.three_digit_numbers,
        "gini": measures.gini,
        "training_steps": measures.training_steps,
        "name_parts": list(measures.name_parts),
        "longest_name": measures.longest_name.decode(errors="replace"),
        "token_lengths": list(measures.token_lengths),
        "lost_bytes": measures.lost_bytes,
        "languages": {
            row.language: {
                "documents": row.num_documents,
                "bytes": row.num_bytes,
                "tokens": row.num_tokens,
                "compression_rate": row.compression_rate,
                "coverage": row.coverage,
            }
            for row in measures.languages
        },
        "depends_on_machine": {
            "encoding_cpu_seconds": measures.cpu_seconds,
            "megabytes_per_cpu_second": num_bytes / 1e6 / measures.cpu_seconds if measures.cpu_seconds else None,
        },
    }
