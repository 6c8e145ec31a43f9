"""Vocabularies: each trained and measured once, kept in DIR/vocabularies."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from benchmarks.sabpe.documents import of_repositories, split_repositories
from benchmarks.sabpe.languages import Language
from benchmarks.sabpe.scales import MAIN, PLAIN, SINGLE, Scale
from benchmarks.sabpe.usage import Usage, measure, read_usage, write_usage
from benchmarks.tokenizer_priorities import Setting, make_tokenizer
from tokenizer import Document, TokenizerConfig
from tokenizer.counting.counts import count_words

__all__ = ["Vocabulary", "make_vocabularies", "read_vocabularies", "vocabularies_of"]

SUBSAMPLE = 0.75
"""Of the repositories, which the tokenizer of a seed learns from."""
SINGLE_PRIORITIES = ("F", "F*log(R+1)", SINGLE)
"""One language leaves L nothing to say."""


class Vocabulary(NamedTuple):
    """What is trained: on all documents, those of a language, or of the repositories that a seed draws."""

    kind: str
    """`all`, `language` or `seed`."""
    of: str
    """The language or the number of the seed."""
    setting: Setting
    vocab_size: int

    def path(self, output: Path) -> Path:
        """Of what was measured."""
        name = f"{self.setting.priority.replace('*', ' ')} R{self.setting.min_repositories}"
        folder = "-".join(part for part in (self.kind, self.of.replace("/", "_")) if part)
        return output / "vocabularies" / folder / f"{name} L{self.setting.min_languages}.npz".replace(" ", "_")


def vocabularies_of(scale: Scale, languages: Sequence[Language]) -> list[Vocabulary]:
    """All that the parts of a scale need, each once."""
    wanted = []
    if "tokenizers" in scale.parts:
        settings = [PLAIN, MAIN, *scale.settings_of_repositories, *scale.settings_of_languages]
        wanted += [Vocabulary("all", "", setting, scale.vocab_size) for setting in settings]
        for seed in range(scale.seeds):
            wanted += [Vocabulary("seed", str(seed), setting, scale.vocab_size) for setting in (PLAIN, MAIN)]
    if "languages" in scale.parts:
        for language in languages:
            for priority in SINGLE_PRIORITIES:
                settings = [Setting(priority, least, 1) for least in language.thresholds]
                wanted += [Vocabulary("language", language.name, each, language.vocab_size) for each in settings]
    return list(dict.fromkeys(wanted))


def make_vocabularies(
    wanted: Sequence[Vocabulary],
    trained: list[Document],
    measured: list[Document],
    output: Path,
    tell: Callable[[str], None],
) -> None:
    """Train and measure what is not there; words are counted once for all settings of the same documents."""
    missing = [each for each in wanted if not each.path(output).exists()]
    for number, (vocabulary, usage) in enumerate(_measure_all(missing, trained, measured), 1):
        write_usage(vocabulary.path(output), usage)
        name = " ".join(part for part in (vocabulary.kind, vocabulary.of) if part)
        tell(f"{number} of {len(missing)} vocabularies to do: {name}, {' '.join(map(str, vocabulary.setting))}")


def read_vocabularies(wanted: Sequence[Vocabulary], output: Path) -> dict[Vocabulary, Usage]:
    """Those that are there."""
    return {each: read_usage(each.path(output)) for each in wanted if each.path(output).exists()}


def _measure_all(
    missing: list[Vocabulary], trained: list[Document], measured: list[Document]
) -> Iterator[tuple[Vocabulary, Usage]]:
    for (kind, of), group in groupby(missing, lambda each: each[:2]):
        vocabularies, documents, others = list(group), trained, measured
        if kind == "language":
            documents, others = ([each for each in side if each.language == of] for side in (trained, measured))
        elif kind == "seed":
            documents = of_repositories(trained, split_repositories(trained, int(of), SUBSAMPLE)[0])
        counts = count_words(documents, TokenizerConfig().pattern)
        for vocabulary in vocabularies:
            config = TokenizerConfig(vocab_size=vocabulary.vocab_size)
            yield vocabulary, measure(make_tokenizer(counts, vocabulary.setting, config), others)
