"""An epoch through the loader: every target once, and the same batches whatever the store, hosts and resumes."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import NamedTuple

import fsspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dataservice import DataConfig, Store, TokenFormat, batches, open_schedule, open_store, prepare, write_store
from dataservice.config import SEQUENCES
from dataservice.loader import BatchDataset
from dataservice.service.server import StoreServer
from dataservice.service.settings import ServerSettings
from dataservice.statistics import measure
from dataservice.store.mixing import MixedStore
from tokenizer import CorpusConfig, Tokenizer

# Documents by shard, in characters; of an appended store the first four shards are there before the others.
LENGTHS = [[3, 40, 1, 77, 9], [5], [2, 61, 18, 1, 1], [33, 4], [12, 7, 7, 25, 50, 4], [8, 64], [1, 1, 1], [21]]
OTHER_LENGTHS = [[19, 2, 31], [70, 3]]
# U+4000 to U+4FFF, of three bytes each, are tokens of their own, so that no store needs a token twice.
CHARACTERS = range(0x4000, 0x5000)
LEADING = [(0xE4, second) for second in range(0x80, 0xC0)]
WHOLE = [(256 + number, third) for number in range(len(LEADING)) for third in range(0x80, 0xC0)]
TOKENIZER = Tokenizer(np.array(LEADING + WHOLE), ("<eot>", "<eod>"))
FORMAT = TokenFormat.of(TOKENIZER)

Texts = Sequence[Sequence[str]]
"""The documents of every shard."""


class Place(NamedTuple):
    """A store of these documents, and how it was when the run began, if that was otherwise."""

    texts: Texts
    open: Callable[[], Store]
    before: Callable[[], Store] | None = None


def ids_of(text: str) -> list[int]:
    return [256 + len(LEADING) + ord(character) - CHARACTERS.start for character in text]


def targets_of(texts: Texts) -> Counter:
    """How often an epoch must have each target, a pair (token before it, token) that stands for one position."""
    documents = (ids_of(text) for text in chain(*texts))
    return Counter(pair for ids in documents for pair in pairwise([FORMAT.eod, *ids, FORMAT.eod]))


def write_texts(lengths: Sequence[Sequence[int]], first: int = 0) -> Texts:
    """Texts of so many characters, no two of them alike."""
    characters = iter(CHARACTERS[first:])
    return [["".join(map(chr, islice(characters, length))) for length in shard] for shard in lengths]


def count_dropped(config: DataConfig, texts: Texts) -> int:
    """Targets that tails=drop leaves out: what no whole row of the shortest length holds."""
    if config.sequences == "packed":
        return 0
    inputs = [[len(text) + 1 for text in shard] for shard in texts]
    stretches = list(chain(*inputs)) if config.sequences == "decomposed" else [sum(shard) for shard in inputs]
    return sum(stretch % config.lengths[0] for stretch in stretches)


def write_documents(folder: Path, texts: Texts, first: int = 0) -> None:
    folder.mkdir(exist_ok=True)
    for number, shard in enumerate(texts, first):
        (folder / f"{number}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in shard))


def prepare_store(documents: Path, output: Path) -> None:
    prepare(CorpusConfig(paths=(str(documents / "*.jsonl"),)), TOKENIZER, output, workers=1)


@pytest.fixture(scope="module", autouse=True)
def quick_disk() -> Iterator[None]:
    """Durability cannot be tested here, and takes most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> Iterator[dict[str, Place]]:
    """Stores prepared from documents on disk: at once, appended to, mixed, and read from elsewhere."""
    folder = tmp_path_factory.mktemp("places")
    texts, others = write_texts(LENGTHS), write_texts(OTHER_LENGTHS, 2000)
    write_documents(folder / "documents", texts[:4])
    for output in ("before", "appended"):
        prepare_store(folder / "documents", folder / output)
    write_documents(folder / "documents", texts[4:], 4)
    write_documents(folder / "others", others)
    for source, output in (("documents", "appended"), ("documents", "prepared"), ("others", "other")):
        prepare_store(folder / source, folder / output)

    def open_local(name: str) -> Callable[[], Store]:
        return lambda: Store.open(folder / name)

    def open_remote(url: str) -> Callable[[], Store]:
        return lambda: open_store(DataConfig(store=url, cache=str(folder / "cache")))

    def open_mixed() -> Store:
        return MixedStore.of([Store.open(folder / name) for name in ("prepared", "other")], [2, 1], folder / "mixed")

    members = zip(*open_mixed().members, strict=True)  # pyright: ignore[reportAttributeAccessIssue]
    mixed = [(texts, others)[store][shard] for store, shard in members]
    memory = fsspec.filesystem("memory")
    memory.put(str(folder / "prepared"), "/exact", recursive=True)
    with ExitStack() as stack:
        stack.callback(memory.store.clear)
        server = StoreServer(Store.open(folder / "prepared"), ServerSettings(host="127.0.0.1", port=0), None)
        stack.callback(server.shutdown)
        yield {
            "prepared": Place(texts, open_local("prepared")),
            "appended": Place(texts, open_local("appended"), open_local("before")),
            "mixed": Place(mixed, open_mixed),
            "served": Place(texts, open_remote(server.url)),
            "at a URL": Place(texts, open_remote("memory://exact")),
        }


@st.composite
def configs(draw: st.DrawFn, kind: str) -> DataConfig:
    shortest = 2 ** draw(st.integers(0, 4))
    longest = shortest * 2 ** draw(st.integers(0, 3))
    return DataConfig(
        sequences=kind,  # pyright: ignore[reportArgumentType]
        tails=draw(st.sampled_from(["pack", "pack", "drop"])),
        min_length=shortest,
        max_length=longest,
        tokens_per_step=max(8, longest * 2 ** draw(st.integers(0, 3))),
        window_shards=draw(st.integers(0, 3)),
        cycles=draw(st.integers(1, 4)),
        curriculum=draw(st.sampled_from(["uniform", "grow-p2", "shrink-p100"])),
        warmup_curriculum=draw(st.none() | st.just("grow-linear")),
        odds_times=draw(st.sampled_from(["none", "batches"])),
        seed=draw(st.integers(0, 99)),
        epochs=draw(st.integers(1, 2)),
    )


class Piece(NamedTuple):
    """A stretch of a run: until then it goes on as these hosts, which make batches so far ahead."""

    until: float
    num_hosts: int
    prefetch: int


PIECES = st.lists(
    st.builds(Piece, st.floats(0, 1), st.sampled_from([1, 2, 4, 8]), st.integers(0, 2)), min_size=2, max_size=4
).map(sorted)


def run_in_pieces(place: Place, config: DataConfig, pieces: Sequence[Piece], num_steps: int, hosts) -> list[dict]:
    """The global batches of a run that is resumed by other hosts again and again, with nothing but a state."""
    block_of, join_hosts = hosts
    done, state = [], None
    stops = [min(int(piece.until * num_steps), num_steps) for piece in pieces[:-1]] + [num_steps]
    opens = [place.open] * len(pieces)
    if place.before is not None and len(pieces) > 1:
        stops[0] = min(stops[0], steps_that_stay(place.before(), config))
        opens[0] = place.before if stops[0] else place.open
    for piece, stop, open_ in zip(pieces, stops, opens, strict=True):
        store = open_()
        here = replace(config, prefetch=piece.prefetch)
        blocks = [block_of(host, piece.num_hosts, here) for host in range(piece.num_hosts)]
        iterators = [iter(batches(store, here, block=block)) for block in blocks]
        for iterator in iterators:
            if state is not None:
                iterator.set_state(state)
        parts = zip(*(list(islice(iterator, max(0, stop - len(done)))) for iterator in iterators), strict=True)
        done += [join_hosts(part, config) for part in parts]
        states = {json.dumps(iterator.get_state()) for iterator in iterators}
        for iterator in iterators:
            iterator.close()
        state = json.loads(states.pop())
        assert not states and state["step"] == len(done)
    return done


def steps_that_stay(store: Store, config: DataConfig) -> int:
    """Steps that documents appended to a store leave as they are: those before its last window."""
    schedule = open_schedule(store, config)
    places = map(schedule.locate, range(schedule.num_steps(1)))
    return sum(place is not None and place.window < len(schedule.windows) - 1 for place in places)


@pytest.fixture
def check(block_of, join_hosts, batch_targets) -> Callable[[Place, DataConfig, Sequence[Piece]], None]:
    def check(place: Place, config: DataConfig, pieces: Sequence[Piece]) -> None:
        store, expected = place.open(), targets_of(place.texts)
        dropped = count_dropped(config, place.texts) if config.tails == "drop" else 0
        if dropped == expected.total():
            return
        whole = list(BatchDataset(store, config))
        epochs = np.array_split(np.arange(len(whole)), config.epochs)
        for epoch in epochs:
            found = batch_targets([whole[step] for step in epoch])
            assert not found - expected
            assert (expected - found).total() == dropped
        assert measure(store, config).dropped_tokens == dropped
        np.testing.assert_equal(run_in_pieces(place, config, pieces, len(whole), (block_of, join_hosts)), whole)

    return check


def examples(quick: int, slow: int) -> list:
    """Numbers of examples."""
    return [quick, pytest.param(slow, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]


FIXTURES = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@pytest.mark.parametrize("num_examples", examples(2, 5))
@pytest.mark.parametrize("kind", SEQUENCES)
@pytest.mark.parametrize("name", ["prepared", "appended", "mixed", "served", "at a URL"])
def test_an_epoch_of_prepared_documents_is_exact(places, check, name, kind, num_examples):
    @settings(max_examples=num_examples, suppress_health_check=FIXTURES)
    @given(config=configs(kind), pieces=PIECES)
    def test(config: DataConfig, pieces: Sequence[Piece]) -> None:
        check(places[name], config, pieces)

    test()


@pytest.mark.parametrize("num_examples", examples(4, 20))
@pytest.mark.parametrize("kind", SEQUENCES)
def test_an_epoch_of_any_documents_is_exact(tmp_path_factory, check, kind, num_examples):
    @settings(max_examples=num_examples, suppress_health_check=FIXTURES)
    @given(
        lengths=st.lists(st.lists(st.integers(1, 90), max_size=9), min_size=1, max_size=5).filter(any),
        config=configs(kind),
        pieces=PIECES,
    )
    def test(lengths: list[list[int]], config: DataConfig, pieces: Sequence[Piece]) -> None:
        texts = write_texts(lengths)
        shards = {str(number): [ids_of(text) for text in shard] for number, shard in enumerate(texts)}
        store = write_store(tmp_path_factory.mktemp("any") / "store", shards, FORMAT)
        check(Place(texts, lambda: Store.open(store.path)), config, pieces)

    test()
