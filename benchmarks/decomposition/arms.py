"""The arms: ways to make rows of the same documents, each a handful of settings of train.py."""

from typing import Any, NamedTuple

from benchmarks.decomposition.scales import Scale, Setting

__all__ = ["BASELINE", "Arm", "arms_of", "longest_row", "settings_of_arm"]

BASELINE = "concat"
MAIN = "decomposed-8"
SINGLE = "only-"
CONCATENATED: dict[str, Any] = {"sequences": "concatenated", "tails": "drop"}
"""The end of all documents that is shorter than a row is left out: kept, it would be a step of padding."""


class Arm(NamedTuple):
    """A name for folders, one for readers, and what it sets in the section `data`."""

    name: str
    title: str
    data: dict[str, Any]


def arms_of(scale: Scale, setting: Setting) -> list[Arm]:
    """The arms of a setting, in the order in which they are run."""
    families = {
        "main": _main(setting.context),
        "curricula": _curricula(),
        "growing": [Arm("grow-length", "GrowLength", {"sequences": "grow-length", "tails": "drop"})],
        "lengths": _single_lengths(scale, setting.context),
        "mixtures": _mixtures(scale, setting.context),
    }
    arms = [arm for family in scale.families for arm in families[family]]
    return [arm for arm in arms if not scale.only_arms or arm.name in scale.only_arms]


def longest_row(arm: Arm, setting: Setting) -> int:
    """Tokens of the longest rows that an arm is trained on: the context in which it is evaluated."""
    mixture = arm.data.get("mixture", "natural")
    longest = max(mixture) if isinstance(mixture, dict) else setting.context
    return min(longest, arm.data.get("max_length", setting.context))


def settings_of_arm(arm: Arm, scale: Scale, setting: Setting) -> dict[str, Any]:
    """All of `data` that is not about where the store is, and the seed."""
    shared = {"min_length": scale.min_length, "max_length": setting.context, "tokens_per_step": scale.tokens_per_step}
    return shared | arm.data


def _main(context: int) -> list[Arm]:
    quarter = CONCATENATED | {"max_length": context // 4}
    return [
        Arm(BASELINE, "concat and chunk", CONCATENATED),
        Arm("concat-quarter", "concat and chunk, a quarter of the context", quarter),
        Arm("masked", "concat + document mask", {"sequences": "concatenated-masked"}),
        Arm("packed", "best-fit packing + mask", {"sequences": "packed"}),
        _decomposed("decomposed-1", "decomposed, grow-p2, 1 cycle", "grow-p2", 1),
        _decomposed(MAIN, "decomposed, grow-p2, 8 cycles", "grow-p2", 8),
    ]


def _curricula() -> list[Arm]:
    return [
        _decomposed("uniform", "decomposed, uniform", "uniform", 1),
        _decomposed("grow-linear", "decomposed, grow-linear, 8 cycles", "grow-linear", 8),
        _decomposed("grow-p100", "decomposed, grow-p100, 8 cycles", "grow-p100", 8),
        _decomposed("shrink-p2", "decomposed, shrink-p2, 8 cycles", "shrink-p2", 8),
    ]


def _decomposed(name: str, title: str, curriculum: str, cycles: int) -> Arm:
    return Arm(name, title, {"sequences": "decomposed", "curriculum": curriculum, "cycles": cycles})


def _single_lengths(scale: Scale, context: int) -> list[Arm]:
    """Documents cut into rows of one length, their ends packed with a mask: every document once, as elsewhere."""
    lengths = _powers(2 * scale.min_length, context)
    one = {"sequences": "decomposed", "tails": "pack"}
    return [
        Arm(f"{SINGLE}{length}", f"rows of {length:,} alone", one | {"min_length": length, "max_length": length})
        for length in lengths
    ]


def _mixtures(scale: Scale, context: int) -> list[Arm]:
    """The paper's named mixtures over as many tokens as the others have, which repeats rows of scarce lengths."""
    ranges = {"equal": (1, context), "up-to-2k": (1, 2048), "256-and-up": (256, context), "256-to-2k": (256, 2048)}
    arms, seen = [], set()
    for name, (first, last) in ranges.items():
        lengths = tuple(length for length in _powers(scale.min_length, context) if first <= length <= last)
        if lengths in seen:
            continue
        seen.add(lengths)
        each = scale.tokens // len(lengths)
        data = {"sequences": "decomposed", "curriculum": "grow-p2", "cycles": 8}
        arms.append(Arm(f"mix-{name}", f"mixture {name}", data | {"mixture": dict.fromkeys(lengths, each)}))
    return arms


def _powers(first: int, last: int) -> list[int]:
    return [1 << power for power in range(first.bit_length() - 1, last.bit_length())]
