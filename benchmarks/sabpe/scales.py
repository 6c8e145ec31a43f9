"""Sizes: what is trained and measured, by default, quickly, or in full."""

from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks.tokenizer_priorities import LANGUAGES, REPOSITORIES, Setting
from tokenizer.merging.priorities import PRIORITIES

__all__ = ["MAIN", "PARTS", "PLAIN", "SCALES", "SINGLE", "Scale"]

PARTS = ("tokenizers", "languages", "models")
PLAIN = Setting("F", 1, 1)
"""Plain BPE."""
MAIN = Setting("F*logR*L", 1, 1)
"""The paper's best for many languages."""
SINGLE = "F*logR"
"""The paper's best priority for one language."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """What is run."""

    name: str
    vocab_size: int
    """Of the tokenizers of all languages, special tokens too."""
    priorities: tuple[str, ...]
    repositories: tuple[int, ...]
    """Thresholds of R, each without one of L."""
    languages: tuple[int, ...]
    """Thresholds of L, each without one of R."""
    draws: int
    """Of evaluation repositories, with replacement."""
    seeds: int
    """Seeds 0, 1, ...: of the repositories that a tokenizer learns from, initial weights and the order of rows."""
    most_languages: int | None
    """Single languages, the largest first; None: all that are large enough."""
    model: dict[str, Any]
    """Fields of LlamaConfig."""
    model_vocab_size: int
    model_bytes: float
    """Of text that a model is trained on, once, without prompts for repetition."""
    tokens_per_step: int
    max_length: int
    learning_rate: float
    parts: tuple[str, ...] = PARTS
    overrides: tuple[str, ...] = ()
    """More settings of train.py, key=value, for every model."""

    @property
    def settings_of_repositories(self) -> list[Setting]:
        return [Setting(priority, least, 1) for priority in self.priorities for least in self.repositories]

    @property
    def settings_of_languages(self) -> list[Setting]:
        return [Setting(priority, 1, least) for priority in self.priorities for least in self.languages]

    @property
    def can_tell(self) -> bool:
        """Whether verdicts are given at all."""
        return self.name != "quick"

    def identity(self) -> dict[str, Any]:
        """What may not change between two starts over the same folder; seeds and parts may be added."""
        return {name: value for name, value in asdict(self).items() if name not in ("seeds", "parts", "draws")}

    def with_options(self, **options: Any) -> "Scale":
        """This scale with those options that are not None."""
        return replace(self, **{name: value for name, value in options.items() if value is not None})


_SMALL = {"num_layers": 4, "dim": 128, "num_heads": 2, "hidden_dim": 384, "tied_embeddings": True, "rope_base": 10_000}

QUICK = Scale(
    name="quick",
    vocab_size=4096,
    priorities=("F", "F*logR", "F*logR*L"),
    repositories=(1, 4),
    languages=(1, 4),
    draws=200,
    seeds=1,
    most_languages=2,
    model=_SMALL | {"num_layers": 2, "dim": 64, "hidden_dim": 192},
    model_vocab_size=2048,
    model_bytes=1e6,
    tokens_per_step=4096,
    max_length=256,
    learning_rate=5e-3,
)
DEFAULT = Scale(
    name="default",
    vocab_size=32768,
    priorities=PRIORITIES,
    repositories=REPOSITORIES,
    languages=LANGUAGES,
    draws=1000,
    seeds=3,
    most_languages=None,
    model=_SMALL,
    model_vocab_size=4096,
    model_bytes=20e6,
    tokens_per_step=4096,
    max_length=512,
    learning_rate=5e-3,
)
FULL = replace(
    DEFAULT,
    name="full",
    seeds=5,
    model=_SMALL | {"dim": 256, "num_heads": 4, "hidden_dim": 704},
    model_vocab_size=8192,
    model_bytes=48e6,
    tokens_per_step=8192,
)
SCALES = {scale.name: scale for scale in (QUICK, DEFAULT, FULL)}
