"""What a step was made of: the text, repository and path of its rows."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dataservice.config import DataConfig
from dataservice.errors import DataError
from dataservice.identity import open_schedule
from dataservice.indexes import RowIndexes
from dataservice.pieces import PiecedRows
from dataservice.reading import RowReader
from dataservice.schedule import Position
from dataservice.store import Store
from dataservice.windows import FILLING

__all__ = ["Piece", "show_step", "step_pieces"]


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A stretch of one document in a row of a batch: `inputs` tokens from the document's `offset` on.

    Offset 0 is the `<eod>` before the document. A decomposed row is one piece, rows of other kinds may have several.
    """

    row: int
    shard: str
    repository: str
    language: str
    path: str
    offset: int
    inputs: int
    tokens: np.ndarray  # (inputs + 1,)


def step_pieces(store: Store, config: DataConfig, step: int, *, counted_from: int = 0) -> tuple[Position, list[Piece]]:
    """Return where a step is in the schedule, and what its rows hold; `DataError` after the last step.

    `counted_from` is the number that the caller gives the first step.
    """
    indexes = RowIndexes(store, config)
    schedule = open_schedule(store, config, indexes)
    position = schedule.locate(step - counted_from)
    if position is None:
        end = schedule.num_steps() + counted_from
        raise DataError(f"step must be below {end}, got {step}; data.epochs says how many there are")
    reader = RowReader(store, config, schedule.windows, indexes)
    places = reader.place(position.bucket, schedule.rows(position)[0])
    bucket = schedule.buckets[position.bucket]
    pieces = []
    for row, (shard, start) in enumerate(zip(*(place.tolist() for place in places), strict=True)):
        if shard == FILLING:
            continue
        rows = indexes.rows(shard)[position.bucket]
        if isinstance(rows, PiecedRows):
            here = rows.slice(start, start + 1)
            stretches = zip(here.starts.tolist(), here.lengths.tolist(), strict=True)
        else:
            stretches = [(start, bucket.length)]
        pieces += [_find_piece(store, row, shard, first, inputs) for first, inputs in stretches]
    return position, pieces


def _find_piece(store: Store, row: int, shard: int, start: int, inputs: int) -> Piece:
    """Return the document and tokens of a stretch of a shard."""
    documents = store.documents(shard)
    document = int(np.searchsorted(documents, start, side="right")) - 1
    source = store.sources(shard).slice(document, 1).to_pylist()[0]
    return Piece(
        row=row,
        shard=store.shards.names[shard],
        repository=source["repository"],
        language=source["language"],
        path=source["path"],
        offset=start - int(documents[document]),
        inputs=inputs,
        tokens=store.read_rows(shard, np.array([start]), inputs + 1)[0],
    )


def show_step(
    store: Store,
    config: DataConfig,
    step: int,
    *,
    counted_from: int = 0,
    max_characters: int = 200,
    max_rows: int | None = None,
) -> Iterator[str]:
    """Yield lines that say which rows a step took: where each comes from, and the beginning of its text.

    `counted_from` is the number that the caller gives the first step; of the rows the first `max_rows` are shown.
    """
    position, pieces = step_pieces(store, config, step, counted_from=counted_from)
    length = sum(piece.inputs for piece in pieces)
    yield (
        f"step {step}: epoch {position.epoch}, window {position.window}, cycle {position.cycle}, "
        f"{length:,} tokens in {len(pieces):,} pieces"
    )
    tokenizer = store.tokenizer()
    for piece in pieces:
        if max_rows is not None and piece.row >= max_rows:
            break
        source = " ".join(part for part in (piece.repository, piece.path, piece.language) if part)
        yield f"row {piece.row}: {source} (shard {piece.shard}), tokens {piece.offset} to {piece.offset + piece.inputs}"
        text = tokenizer.decode(piece.tokens.tolist())
        yield f"    {text[:max_characters]!r}{'...' if len(text) > max_characters else ''}"
