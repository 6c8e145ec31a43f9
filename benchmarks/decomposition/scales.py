"""How large the comparison is: sizes that are the same for every arm, as --quick, by default and as --full."""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

__all__ = ["DEFAULT", "FULL", "QUICK", "SCALES", "Scale", "Setting"]

DocumentKind = Literal["up-to-context", "whole"]


class Setting(NamedTuple):
    """Documents and the longest row."""

    documents: DocumentKind
    """up-to-context: those that fit into one row alone; whole: of any length."""
    context: int
    """Tokens of the longest row."""

    @property
    def name(self) -> str:
        return f"{self.documents}-{self.context}"


@dataclass(frozen=True, kw_only=True)
class Scale:
    """What all runs share."""

    name: str
    model: dict[str, Any]
    """Fields of LlamaConfig."""
    vocab_size: int
    tokens: int
    """Targets of a run: one pass over as many documents as make them up, the same ones in every arm."""
    tokens_per_step: int
    held_out_tokens: int
    contexts: tuple[int, ...]
    documents: tuple[DocumentKind, ...]
    seeds: int
    """Seeds 0, 1, ...: of the initial weights and of the order of rows."""
    families: tuple[str, ...]
    """Groups of arms."""
    learning_rate: float
    tried_rates: tuple[float, ...] = ()
    """Learning rates of which each arm gets its best, by short runs; none: all have `learning_rate`."""
    hot_arms: tuple[str, ...] = ()
    """Arms that are also trained at HOT times the learning rate without clipping, in the first setting."""
    retrieval_tasks: tuple[str, ...] = ("repetition",)
    """Tasks of `python -m evaluation longcontext` that the final models are given at half of the context."""
    retrieval_samples: int = 8
    """Of each task and depth."""
    evaluations: int = 8
    min_length: int = 64
    only_arms: tuple[str, ...] = ()
    """Names of the arms that are run; none: all of the families."""
    overrides: tuple[str, ...] = ()
    """More settings of train.py, key=value, for every arm."""

    @property
    def settings(self) -> list[Setting]:
        return [Setting(documents, context) for context in self.contexts for documents in self.documents]

    @property
    def num_steps(self) -> int:
        """Steps of an arm without padding."""
        return self.tokens // self.tokens_per_step

    @property
    def can_tell(self) -> bool:
        """Whether verdicts are given at all."""
        return self.name != "quick"

    def identity(self) -> dict[str, Any]:
        """What may not change between two starts over the same folder; seeds, arms and settings may be added."""
        free = ("seeds", "families", "contexts", "documents", "hot_arms", "only_arms")
        return {name: value for name, value in asdict(self).items() if name not in free}

    def with_options(self, **options: Any) -> "Scale":
        """This scale with those options that are not None."""
        return replace(self, **{name: value for name, value in options.items() if value is not None})


HOT = 10.0
"""Times the learning rate of the arms that are to show who is stable."""
SHORT = 4
"""Part of the documents that short runs (hot ones, and those that try learning rates) are trained on: a quarter."""

_SMALL = {"num_layers": 4, "dim": 128, "num_heads": 2, "hidden_dim": 384, "tied_embeddings": True, "rope_base": 10_000}

QUICK = Scale(
    name="quick",
    model=_SMALL | {"num_layers": 2, "dim": 64, "hidden_dim": 192},
    vocab_size=2048,
    tokens=2**17,
    tokens_per_step=2048,
    held_out_tokens=2**14,
    contexts=(512,),
    documents=("up-to-context",),
    seeds=1,
    families=("main",),
    learning_rate=5e-3,
    evaluations=4,
)
DEFAULT = Scale(
    name="default",
    model=_SMALL,
    vocab_size=4096,
    tokens=7 * 2**17,
    tokens_per_step=4096,
    held_out_tokens=2**16,
    contexts=(2048,),
    documents=("up-to-context", "whole"),
    seeds=2,
    families=("main",),
    learning_rate=5e-3,
    hot_arms=("concat", "decomposed-8"),
)
FULL = replace(
    DEFAULT,
    name="full",
    model=_SMALL | {"rope_base": 100_000},
    tokens=3 * 2**20,
    tokens_per_step=8192,
    held_out_tokens=2**17,
    contexts=(2048, 4096),
    seeds=3,
    families=("main", "curricula", "growing", "lengths", "mixtures"),
    tried_rates=(2.5e-3, 5e-3, 1e-2),
    hot_arms=("concat", "decomposed-8", "grow-p100"),
    retrieval_tasks=("documents", "repetition"),
    retrieval_samples=20,
    evaluations=16,
)
SCALES = {scale.name: scale for scale in (QUICK, DEFAULT, FULL)}
