"""Makes `unicode16.npz`, the frozen character classes, from an engine whose Unicode version is 16.

Oniguruma, which Hugging Face `tokenizers` carries, is asked about every code point, so that splits equal those of
`tokenizers` and of `tiktoken` (fancy-regex, Unicode 16 too). Python's `regex` is newer and `unicodedata` is older or
newer with the interpreter: neither may decide where a word ends.

    python -m tokenizer.splitting.unicode_freeze        # needs the extra `peers`; writes the file beside this module
"""

from pathlib import Path

import numpy as np

from tokenizer.splitting.unicode_classes import CLASSES, NUM_CODE_POINTS, TABLE_FILE

_EXPRESSIONS = {
    "uppercase": r"\p{Lu}",
    "lowercase": r"\p{Ll}",
    "titlecase": r"\p{Lt}",
    "modifier": r"\p{Lm}",
    "other_letter": r"\p{Lo}",
    "mark": r"\p{M}",
    "number": r"\p{N}",
    "space": r"\s",
}


def probe(expression: str) -> np.ndarray:
    """Return bool[NUM_CODE_POINTS]: whether Oniguruma matches each code point; surrogates are never matched."""
    from tokenizers import Regex, pre_tokenizers

    matched = np.ones(NUM_CODE_POINTS, bool)
    matched[0xD800:0xE000] = False
    characters = "".join(chr(code) for code in range(NUM_CODE_POINTS) if not 0xD800 <= code < 0xE000)
    split = pre_tokenizers.Split(Regex(expression), "removed")
    for unmatched, _ in split.pre_tokenize_str(characters):
        matched[ord(unmatched[0]) : ord(unmatched[-1]) + 1] = False
    return matched


def freeze(path: Path) -> int:
    """Write the class runs to `path` and return how many there are."""
    classes = np.full(NUM_CODE_POINTS, CLASSES["other"], np.uint8)
    letters = np.zeros(NUM_CODE_POINTS, bool)
    for name, expression in _EXPRESSIONS.items():
        matched = probe(expression)
        assert (classes[matched] == CLASSES["other"]).all(), f"{name} overlaps another class"
        classes[matched] = CLASSES[name]
        if CLASSES[name] <= CLASSES["other_letter"]:
            letters |= matched
    assert (letters == probe(r"\p{L}")).all(), "the five kinds of letters must be all the letters"
    starts = np.flatnonzero(np.diff(classes, prepend=np.uint8(255)))
    np.savez_compressed(path, starts=starts.astype(np.int32), classes=classes[starts])
    return len(starts)


if __name__ == "__main__":
    print(f"{freeze(TABLE_FILE)} runs written to {TABLE_FILE.name}")
