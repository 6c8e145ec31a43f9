"""Random names and numbers, and whether a text holds them already."""

import random
from collections.abc import Iterable

from dataservice.hashing import derive_key

__all__ = ["draw_names", "draw_numbers", "generator_of", "hold_any"]

_TEXT = """
acorn amber anchor apple arrow aspen badge baker basil beach berry birch bison blade bloom board brass bread brick
brook brush cabin camel candle canyon cedar chalk cherry cliff cloud clover cobalt comet copper coral cotton crane
crown dairy daisy delta desert dolphin dune eagle ember engine fable falcon feather fern fiddle flint forest fossil
garden ginger glacier globe grape gravel hammer harbor hazel heron honey island ivory jacket jasper jungle kettle
ladder lagoon lantern lemon lilac linen lizard lotus magnet maple marble meadow melon mirror moss mustard nectar
nickel oasis olive onyx opal orchid otter oyster panther paper pearl pebble pepper pigeon planet plum prairie quartz
quill rabbit raven river rocket saddle saffron salmon sparrow spruce summit tiger timber tulip turtle valley velvet
violet walnut willow winter
"""
_WORDS = tuple(_TEXT.split())


def generator_of(seed: int, task: str, length: int, depth: float, sample: int) -> random.Random:
    """The randomness of one question: a function of what it is."""
    return random.Random(derive_key(seed, f"longcontext:{task}:{depth!r}", length, sample))


def draw_names(rng: random.Random, count: int) -> list[str]:
    """Different names of two different words, such as amber_falcon; fewer where there are no more (13,000 or so)."""
    others = len(_WORDS) - 1
    numbers = range(len(_WORDS) * others)
    pairs = (divmod(number, others) for number in rng.sample(numbers, min(count, len(numbers))))
    return [f"{_WORDS[first]}_{_WORDS[second + (second >= first)]}" for first, second in pairs]


def draw_numbers(rng: random.Random, count: int, digits: int) -> list[str]:
    """Different numbers of so many digits, each as likely to be any; fewer where there are no more."""
    numbers = range(10 ** (digits - 1), 10**digits)
    return [str(number) for number in rng.sample(numbers, min(count, len(numbers)))]


def hold_any(text: str, wanted: Iterable[str]) -> bool:
    """Whether any of these stands in a text."""
    return any(one in text for one in wanted)
