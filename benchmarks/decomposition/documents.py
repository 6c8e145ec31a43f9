"""Documents to a tokenizer, one store a setting and held-out sequences: made once, kept in the folder of the results.

Every arm of a setting passes once over the same documents, drawn in a fixed order until they make up the tokens of a
run. Held-out documents are drawn the same way from documents of other repositories.
"""

import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.decomposition.scales import SHORT, Scale, Setting
from benchmarks.document_table import write_documents
from benchmarks.plan import identify
from dataservice.errors import DataError
from tokenizer import Progress, Tokenizer
from tokenizer.corpus import CorpusConfig, Document, is_held_out, list_shards, read_shard
from tokenizer.output import write_file

__all__ = [
    "Sources",
    "haystack_path",
    "held_out_path",
    "identify_sources",
    "make_data",
    "read_held_out",
    "select",
    "store_path",
]

LARGEST_PART = 16
"""A document makes up at most a sixteenth of the tokens it is drawn for; longer ones are left out."""
HELD_OUT_FRACTION = 0.1
"""Of the repositories, where no documents to evaluate on are named."""
HAYSTACK_DOCUMENTS = 400
"""Held-out documents, of any length, that long-context tasks are made of."""
_ORDER_SEED = 20240526


class Sources(NamedTuple):
    """Where documents come from: paths of documents, or a prepared store."""

    train: tuple[str, ...] = ()
    evaluation: tuple[str, ...] = ()
    """None: a tenth of the repositories of `train`, or what the store holds out."""
    store: str | None = None
    """Its documents and its tokenizer."""


def identify_sources(sources: Sources) -> dict[str, list[str]]:
    """What tells the documents from others, by the option that names them.

    Raises the errors of corpora and stores that are not there.
    """
    stored = []
    if sources.store is not None:
        store = _open_store(sources.store)
        stored = [store.prefix_digest(store.num_planned_shards)]
    return {
        "--data train=": identify(sources.train),
        "--data eval=": identify(sources.evaluation),
        "--data store=": stored,
    }


def store_path(folder: Path, setting: Setting, *, short: bool = False) -> Path:
    """Of the store that the arms of a setting are trained on, or the smaller one of short runs."""
    return folder / "stores" / (setting.name + ("-short" if short else ""))


def held_out_path(folder: Path, setting: Setting) -> Path:
    """Of the held-out sequences of a setting."""
    return folder / "held_out" / f"{setting.name}.npz"


def haystack_path(folder: Path) -> Path:
    """Of the held-out documents, as text, that long-context tasks are made of."""
    return folder / "held_out" / "documents.parquet"


def make_data(folder: Path, sources: Sources, scale: Scale, progress: Progress) -> None:
    """Make what is missing: DIR/tokenizer, DIR/stores/*, DIR/held_out/*.

    Raises the errors of corpora, tokenizers and stores; DataError where there are no documents for a setting.
    """
    wanted = [setting for setting in scale.settings if not _is_made(folder, setting)]
    if not wanted:
        return
    documents, held_out = _read_all(sources)
    _require(len(held_out), "evaluation")
    write_documents(haystack_path(folder), _draw(held_out, HAYSTACK_DOCUMENTS))
    trained = _open_tokenizer(folder, sources, scale, documents, progress)
    lengths, held_out_ids = _count_inputs(documents, trained), _encode(held_out, trained)
    for setting in wanted:
        limit = setting.context if setting.documents == "up-to-context" else None
        for part, short in ((1, False), (SHORT, True)):
            chosen = select(lengths, scale.tokens // part, limit)
            _require(len(chosen), f"{setting.name} to train on")
            _make_store(store_path(folder, setting, short=short), [documents[n] for n in chosen], trained, progress)
        chosen = select(np.array([len(ids) - 1 for ids in held_out_ids]), scale.held_out_tokens, limit)
        _require(len(chosen), f"{setting.name} to evaluate on")
        _write_held_out(held_out_path(folder, setting), [held_out_ids[n] for n in chosen])


def select(lengths: np.ndarray, budget: int, limit: int | None) -> np.ndarray:
    """Numbers of documents, in a fixed random order, that make up at most `budget` inputs; int64.

    One that does not fit into what is left is passed over, and so are empty ones and those longer than `limit`, or
    without a limit than a sixteenth of the budget.
    """
    longest = budget // LARGEST_PART if limit is None else limit
    chosen, left = [], budget
    for number in np.random.default_rng(_ORDER_SEED).permutation(len(lengths)).tolist():
        if 1 < lengths[number] <= min(longest, left):
            chosen.append(number)
            left -= int(lengths[number])
    return np.array(chosen, np.int64)


def read_held_out(path: Path) -> list[np.ndarray]:
    """The held-out sequences, each <eod> text <eod>."""
    with np.load(path) as arrays:
        return np.split(arrays["ids"].astype(np.int64), arrays["offsets"][1:-1])


def _is_made(folder: Path, setting: Setting) -> bool:
    manifests = [store_path(folder, setting, short=short) / "manifest.json" for short in (False, True)]
    return all(path.exists() for path in [*manifests, held_out_path(folder, setting)])


def _read_all(sources: Sources) -> tuple[list[Document], list[Document]]:
    """Documents to train on, and to evaluate on."""
    if sources.store is not None:
        documents, held_out = _read_store(sources.store)
    else:
        config = CorpusConfig(paths=sources.train, held_out_fraction=0.0 if sources.evaluation else HELD_OUT_FRACTION)
        both = [(document, is_held_out(document, config)) for document in _read_corpus(config)]
        documents = [document for document, is_out in both if not is_out]
        held_out = [document for document, is_out in both if is_out]
    if sources.evaluation:
        held_out = _read_corpus(CorpusConfig(paths=sources.evaluation))
    return documents, held_out


def _read_corpus(config: CorpusConfig) -> list[Document]:
    return [document for shard in list_shards(config) for document in read_shard(shard, config)]


def _read_store(place: str) -> tuple[list[Document], list[Document]]:
    """What a store keeps for training, and what it holds out."""
    store = _open_store(place)
    trained = store.tokenizer()
    return _decode(store, trained), _decode(store.held_out, trained) if store.held_out is not None else []


def _open_store(place: str):
    from dataservice import DataConfig, open_store

    return open_store(DataConfig(store=place))


def _decode(store, trained: Tokenizer) -> list[Document]:
    documents = []
    for shard in range(store.num_planned_shards):
        tokens, ends = np.asarray(store.tokens(shard)), np.asarray(store.documents(shard))
        names = store.sources(shard).to_pylist()
        for start, end, name in zip(ends[:-1].tolist(), ends[1:].tolist(), names, strict=True):
            text = trained.decode(tokens[start + 1 : end])
            documents.append(Document(text, name["repository"], name["language"], name["path"]))
    return documents


def _open_tokenizer(
    folder: Path, sources: Sources, scale: Scale, documents: list[Document], progress: Progress
) -> Tokenizer:
    """DIR/tokenizer: that of the store, or one trained on all documents that are not held out."""
    import tokenizer as tokenizers

    place = folder / "tokenizer"
    if not (place / "tokenizer.json").exists():
        if sources.store is not None:
            trained = _open_store(sources.store).tokenizer()
        else:
            triples = ((each.text, each.repository, each.language) for each in documents)
            progress("train tokenizer", 0, 1)
            trained = tokenizers.train(triples, vocab_size=scale.vocab_size)
            progress("train tokenizer", 1, 1)
        trained.save(place)
    return Tokenizer.load(place)


def _count_inputs(documents: list[Document], trained: Tokenizer) -> np.ndarray:
    """Of each document its inputs, which are <eod> and its tokens; int64."""
    _, offsets = trained.encode_batch([document.text for document in documents])
    return np.diff(offsets) + 1


def _encode(documents: list[Document], trained: Tokenizer) -> list[np.ndarray]:
    ids, offsets = trained.encode_batch([document.text for document in documents])
    border = np.array([trained.special_tokens["<eod>"]], ids.dtype)
    return [np.concatenate([border, part, border]) for part in np.split(ids, offsets[1:-1])]


def _make_store(place: Path, documents: list[Document], trained: Tokenizer, progress: Progress) -> None:
    from dataservice import prepare

    if (place / "manifest.json").exists():
        return
    table = place.parent / f".{place.name}.parquet"
    write_documents(table, documents)
    beside = place.with_name(f".{place.name}")
    shutil.rmtree(beside, ignore_errors=True)
    prepare(CorpusConfig(paths=(str(table),), shard_bytes=1 << 30), trained, beside, workers=1, progress=progress)
    beside.rename(place)
    table.unlink()


def _draw(documents: list[Document], count: int) -> list[Document]:
    order = np.random.default_rng(_ORDER_SEED).permutation(len(documents))
    return [documents[number] for number in order[:count]]


def _write_held_out(path: Path, sequences: list[np.ndarray]) -> None:
    import io

    buffer = io.BytesIO()
    offsets = np.cumsum([0, *(len(ids) for ids in sequences)])
    np.savez(buffer, ids=np.concatenate(sequences), offsets=offsets)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, buffer.getvalue())


def _require(count: int, what: str) -> None:
    if not count:
        raise DataError(f"documents must be enough for {what}, got none that are short enough; name more with --data")
