import unicodedata

import numpy as np
import pytest

from tokenizer.splitting.unicode_classes import CLASSES, NUM_CODE_POINTS, class_table

BY_CATEGORY = {"Lu": "uppercase", "Ll": "lowercase", "Lt": "titlecase", "Lm": "modifier", "Lo": "other_letter"}


def test_classes_are_the_categories_of_the_interpreter_wherever_it_knows_the_character():
    table = class_table()
    spaces = {code for code in range(NUM_CODE_POINTS) if chr(code).isspace()} - set(range(0x1C, 0x20))
    for code in range(NUM_CODE_POINTS):
        category = unicodedata.category(chr(code))
        if category in ("Cn", "Cs"):  # not assigned in its version, or a surrogate
            continue
        name = BY_CATEGORY.get(category) or {"M": "mark", "N": "number"}.get(category[0], "other")
        expected = "space" if code in spaces else name
        assert table[code] == CLASSES[expected], f"U+{code:04X}"


def test_white_space_is_the_25_characters_of_the_property():
    assert np.count_nonzero(class_table() == CLASSES["space"]) == 25


@pytest.mark.peers
@pytest.mark.parametrize(("expression", "names"), [(r"\p{N}", ["number"]), (r"\p{Lu}", ["uppercase"])])
def test_frozen_classes_are_those_of_oniguruma(expression, names):
    from tokenizer.splitting.unicode_freeze import probe

    expected = np.isin(class_table(), [CLASSES[name] for name in names])
    assert np.array_equal(probe(expression), expected)
