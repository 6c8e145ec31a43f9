"""The live splitter of a page: text that is typed, as two tokenizers split it, by the reader's browser.

The page holds merges, what training knew of them, and the frozen Unicode classes, so that it needs neither a network
nor a browser of a certain Unicode version. Its scripts are `byte_pairs.js` and `splitter.js` beside this module.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from evaluation.report.script_patterns import script_pattern
from tokenizer import Tokenizer
from tokenizer.measures.page import Widget
from tokenizer.measures.spelling import show_text
from tokenizer.splitting.unicode_classes import CLASSES, NUM_CODE_POINTS, class_table

__all__ = ["MOST_CHARACTERS", "make_splitter", "pack_numbers"]

MOST_CHARACTERS = 3_600_000
"""Of what a splitter holds of its tokenizers, so that a page with plots stays below 5 MB."""

TEXT = (
    "def get_HTTP_status(self, url: str = 'https://example.org') -> int:\n"
    '    """Return 200, 404 or 12345678."""\n'
    "    for retryCount in range(10):\n"
    "        response = self.session.get(url, timeout=2.5)\n"
    "        if response.ok:  # we're done\n"
    "            return response.status_code\n\n"
    "Grüße aus Köln, 東京 и Москва! 🎉\n"
)


def make_splitter(tokenizers: Mapping[str, Tokenizer]) -> tuple[Widget | None, list[str]]:
    """Make the splitter of tokenizers by name, and say which of them it could not take, and why.

    Returns:
        The widget, None when it can take none of them; and a sentence about each that is left out.
    """
    stored: list[dict[str, Any]] = []
    left_out, size = [], 0
    for name, tokenizer in tokenizers.items():
        pattern = script_pattern(tokenizer.pattern)
        if pattern is None:
            left_out.append(f"{name} is not among them: its pattern is none of those that the page can run.")
            continue
        content = _store(name, tokenizer, pattern)
        characters = len(json.dumps(content))
        if size + characters > MOST_CHARACTERS:
            left_out.append(f"{name} is not among them: its merges would make the page larger than 5 MB.")
            continue
        stored.append(content)
        size += characters
    if not stored:
        return None, left_out
    folder = files("evaluation.report")
    content = {"classes": _classes(), "tokenizers": stored, "text": TEXT}
    widget = Widget(
        markup=folder.joinpath("splitter.html").read_text(encoding="utf-8"),
        style=folder.joinpath("splitter.css").read_text(encoding="utf-8"),
        script="\n".join(folder.joinpath(f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS),
        data={"splitter-data": json.dumps(content)},
    )
    return widget, left_out


_SCRIPTS = ("byte_pairs", "splitter")


def _store(name: str, tokenizer: Tokenizer, pattern: str) -> dict[str, Any]:
    """What the page keeps of a tokenizer."""
    num_symbols = 256 + len(tokenizer.pairs)
    own_ids = tokenizer.ids[:num_symbols]
    merges = tokenizer.merges
    counts = None
    if merges is not None and merges.frequency.any():
        counts = [pack_numbers(column) for column in (merges.frequency, merges.repositories, merges.languages)]
    return {
        "name": show_text(name),
        "pattern": pattern,
        "lefts": pack_numbers(tokenizer.pairs[:, 0]),
        "rights": pack_numbers(tokenizer.pairs[:, 1]),
        "ids": None if np.array_equal(own_ids, np.arange(num_symbols)) else pack_numbers(own_ids),
        "counts": counts,
    }


def _classes() -> dict[str, Any]:
    """The frozen classes of code points as runs."""
    table = class_table()
    starts = np.flatnonzero(np.diff(table, prepend=np.uint8(255)))
    return {
        "names": sorted(CLASSES, key=CLASSES.__getitem__),
        "lengths": pack_numbers(np.diff(starts, append=NUM_CODE_POINTS)),
        "classes": pack_numbers(table[starts]),
    }


def pack_numbers(numbers: Sequence[int] | np.ndarray) -> str:
    """Whole numbers from 0 on as text: 7 bits a byte, the lowest first, the eighth set where more follow; base64.

    >>> pack_numbers([5, 300])
    'BawC'
    """
    values = np.asarray(numbers, np.uint64)
    # parts: (numbers, 9) of 7 bits each; a part is written if it or a later one is not zero, and the first always
    parts = values[:, None] >> np.arange(0, 63, 7, dtype=np.uint64)
    is_written = parts > 0
    is_written[:, 0] = True
    data = (parts & np.uint64(127)).astype(np.uint8)
    data[:, :-1] |= np.where(is_written[:, 1:], np.uint8(128), np.uint8(0))
    return base64.b64encode(data[is_written].tobytes()).decode()
