from itertools import chain

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dataservice.concatenation import concatenate, count_rows
from dataservice.config import DataConfig
from dataservice.hashing import hash64
from dataservice.pieces import PiecedRows, num_rows
from dataservice.sequences import count_by_table, make_rows
from dataservice.store import length_powers

lengths_of_documents = st.lists(st.integers(1, 60), max_size=25)
rows_of = st.sampled_from([(16,), (1,), (32, 16, 8), (8, 4, 2, 1)])


def join_and_cut(documents: np.ndarray, lengths, key: int, keeps_rest: bool) -> list[list[int]]:
    """The positions of the inputs of each row: documents joined one after the other, tokens cut off one by one."""
    order = sorted(range(len(documents) - 1), key=lambda number: int(hash64(np.array([number]), key)[0]))
    stream = [position for number in order for position in range(documents[number], documents[number + 1])]
    total, rest, rows = len(stream), 0, []
    for number, length in enumerate(lengths):
        rest += total * (number + 1) // len(lengths) - total * number // len(lengths)
        while rest >= length:
            rows.append([stream.pop(0) for _ in range(length)])
            rest -= length
    assert len(stream) == rest
    return rows + [stream] * bool(stream and keeps_rest)


@given(lengths_of_documents, rows_of, st.integers(0, 5), st.booleans())
def test_rows_are_those_of_joining_and_cutting_token_by_token(lengths, row_lengths, key, keeps_rest):
    documents = np.cumsum([3, *lengths])
    rows = concatenate(documents, row_lengths, key, keeps_rest=keeps_rest)
    pieces = [list(range(s, s + n)) for s, n in zip(rows.starts.tolist(), rows.lengths.tolist(), strict=True)]
    found = [
        list(chain.from_iterable(pieces[first:stop]))
        for first, stop in zip(rows.offsets[:-1], rows.offsets[1:], strict=True)
    ]
    assert found == join_and_cut(documents, row_lengths, key, keeps_rest)
    assert rows.row_lengths().tolist() == [len(row) for row in found]
    for piece in pieces:
        assert piece
        assert np.searchsorted(documents, piece[0], "right") == np.searchsorted(documents, piece[-1], "right")


def test_documents_come_in_an_order_that_seed_and_shard_decide():
    documents = np.cumsum([0] + [4] * 50)

    def order_of(seed: int, digest: str) -> list[int]:
        config = DataConfig(sequences="concatenated", max_length=4, tokens_per_step=4, seed=seed)
        rows = make_rows(documents, config, digest)[0]
        assert isinstance(rows, PiecedRows)
        return (rows.starts // 4).tolist()

    orders = [order_of(0, "0a"), order_of(1, "0a"), order_of(0, "0b")]
    assert all(sorted(order) == list(range(50)) != order for order in orders)
    assert len(set(map(tuple, orders))) == 3
    assert order_of(0, "0a") == orders[0]


def test_the_example_of_the_shares():
    counts, rest = count_rows(np.array([3000, 0]), (512, 128, 32))
    assert counts.tolist() == [[1, 0], [11, 0], [33, 0]] and rest.tolist() == [24, 0]


@given(st.integers(0, 10_000), rows_of)
def test_every_length_has_an_equal_share_but_for_less_than_its_row_and_what_longer_ones_leave(inputs, lengths):
    counts, rest = (array[..., 0] for array in count_rows(np.array([inputs]), lengths))
    assert counts @ np.array(lengths) + rest == inputs
    assert 0 <= rest < lengths[-1]
    for length, count in zip(lengths, counts.tolist(), strict=True):
        assert abs(count * length - inputs / len(lengths)) <= 2 * lengths[0]


@given(lengths_of_documents, st.sampled_from(["concatenated", "concatenated-masked", "grow-length"]), st.booleans())
def test_the_table_of_shards_knows_the_rows_of_every_bucket(lengths, kind, packs):
    settings = {"sequences": kind, "min_length": 4, "max_length": 16, "tokens_per_step": 16}
    config = DataConfig(**settings, tails="pack" if packs else "drop")
    digits, multiples = length_powers(np.array(lengths, dtype=np.int64))
    counted = count_by_table(digits[None], multiples[None], config)[:, 0].tolist()
    made = make_rows(np.cumsum([0, *lengths]), config, "1")
    assert counted == [num_rows(rows) for rows in made]
