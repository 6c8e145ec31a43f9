"""Flipped bits and truncations anywhere in a store: found at open, first read or verification, and never trained on."""

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count, cycle
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from dataservice import DataConfig, Store, StoreError, held_out_batches, prepare, verify
from dataservice.loader import BatchDataset
from dataservice.service.access import Access
from dataservice.service.remote_store import ServedStore
from dataservice.service.server import StoreServer
from dataservice.service.settings import ServerSettings
from dataservice.store.mirror import Mirror
from dataservice.store.mirrored import MirroredStore
from dataservice.store.retrying import Patience
from dataservice.store.urls import UrlFiles
from tokenizer import CorpusConfig, Tokenizer

TOKENIZER = Tokenizer(np.array([[101, 32], [116, 104]]), ("<eot>", "<eod>"))
CONFIG = DataConfig(min_length=4, max_length=32, tokens_per_step=64, window_shards=1, cycles=2, prefetch=0)
# One try and the next: what is damaged where it lies stays so.
QUICK = Patience(tries=2, first_pause=0.0, longest_pause=0.0, timeout=20.0)


class Damage(NamedTuple):
    """A file of a store, and the bit that is flipped or the byte before which it ends."""

    file: str
    position: int
    is_flip: bool

    def apply(self, data: bytes) -> bytes:
        if not self.is_flip:
            return data[: self.position]
        changed = bytearray(data)
        changed[self.position // 8] ^= 1 << self.position % 8
        return bytes(changed)


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Iterator[Path]:
    """A store with held-out documents and its tokenizer, as `prepare` makes it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        folder, random = tmp_path_factory.mktemp("damage"), np.random.default_rng(0)
        (folder / "documents").mkdir()
        for number in range(3):
            lines = (
                json.dumps({"text": f"{number} the {row} " * int(random.integers(1, 9)), "repo": str(row % 6)}) + "\n"
                for row in range(12)
            )
            (folder / f"documents/{number}.jsonl").write_text("".join(lines))
        corpus = CorpusConfig(paths=(str(folder / "documents"),), held_out_fraction=0.3)
        prepare(corpus, TOKENIZER, folder / "store", workers=1)
        yield folder / "store"


@contextmanager
def damaged(path: Path, damage: Damage) -> Iterator[None]:
    """The file is another one for a while: nobody's map of the old one changes."""
    whole = path.read_bytes()
    path.unlink()
    path.write_bytes(damage.apply(whole))
    yield
    path.unlink()
    path.write_bytes(whole)


@pytest.fixture(scope="module")
def files(store) -> dict[str, bytes]:
    paths = sorted(path for path in store.rglob("*") if path.is_file() and path.stat().st_size)
    assert {path.suffix for path in paths} == {".json", ".npy", ".parquet"}
    return {path.relative_to(store).as_posix(): path.read_bytes() for path in paths}


def draw_damages(files: dict[str, bytes], count: int) -> Iterator[Damage]:
    """Half of the places anywhere in the bytes of a store, half anywhere in one of its files, small or large."""
    random, names = np.random.default_rng(1), list(files)
    sizes = np.array([len(files[name]) for name in names])
    for number in range(count):
        name = names[random.choice(len(names), p=sizes / sizes.sum() if number % 2 else None)]
        is_flip = bool(random.integers(2))
        yield Damage(name, int(random.integers(len(files[name]) * (8 if is_flip else 1))), is_flip)


Open = Callable[[], Store]


class Reader(NamedTuple):
    """How a store is read: `begin` is called before a file in `folder` is damaged, and what it returns afterwards."""

    folder: Path
    begin: Callable[[ExitStack], Open]
    is_mended: bool = False


def read_locally(store: Path, folder: Path) -> Reader:
    """The store itself, with and without the row indexes of an earlier run."""
    copy, has_indexes = shutil.copytree(store, folder / "store"), cycle([False, True])

    def begin(stack: ExitStack) -> Open:
        if not next(has_indexes):
            for indexes in (copy / "indexes", copy / "held_out/indexes"):
                shutil.rmtree(indexes, ignore_errors=True)
        return partial(Store.open, copy)

    return Reader(copy, begin)


def open_mirror(url: str, folder: Path) -> Store:
    return MirroredStore.open(folder, origin=Mirror(UrlFiles(url, QUICK), folder, root=folder, limit=1 << 30))


def read_url(store: Path, folder: Path) -> Reader:
    """Files behind a URL, each time through a new mirror."""
    copy, numbers = shutil.copytree(store, folder / "store"), count()
    return Reader(copy, lambda _: partial(open_mirror, f"file://{copy}", folder / f"mirror-{next(numbers)}"))


def read_mirror(store: Path, folder: Path) -> Reader:
    """A mirror that holds every file of a URL, where all is well."""
    open_ = partial(open_mirror, f"file://{store}", folder / "mirror")
    assert verify(open_()) == []
    return Reader(folder / "mirror", lambda _: open_, is_mended=True)


def read_served(store: Path, folder: Path) -> Reader:
    """The files of a server that has opened them while they were whole, each time through a new mirror."""
    copy, numbers = shutil.copytree(store, folder / "store"), count()

    def begin(stack: ExitStack) -> Open:
        server = stack.enter_context(StoreServer(Store.open(copy), ServerSettings(host="127.0.0.1", port=0)))
        mirror = folder / str(next(numbers)) / "mirror"
        return partial(ServedStore.connect, (server.url,), mirror, access=Access(), limit=1 << 30, patience=QUICK)

    return Reader(copy, begin)


READERS = (read_locally, read_url, read_mirror, read_served)


def read_batches(store: Store) -> Iterator[dict]:
    yield from held_out_batches(store, CONFIG, num_batches_per_bucket=99)
    yield from BatchDataset(store, CONFIG)


def train(open_: Open) -> tuple[list[dict], Store | None, str]:
    """The batches before an error, the store if it could be opened, and the error."""
    store, trained = None, []
    try:
        store = open_()
        trained.extend(read_batches(store))
    except StoreError as error:
        return trained, store, str(error)
    return trained, store, ""


def check(reader: Reader, damage: Damage, whole: list[dict]) -> str:
    """Train on a damaged store: when the damage was found."""
    with ExitStack() as stack:
        open_ = reader.begin(stack)
        stack.enter_context(damaged(reader.folder / damage.file, damage))
        trained, opened, fault = train(open_)
        np.testing.assert_equal(trained, whole[: len(trained)], err_msg=str(damage))
        if fault:
            assert damage.file in fault and "\n" not in fault, f"{damage}: {fault}"
            return "open" if opened is None else "read"
        assert opened is not None and len(trained) == len(whole), damage
        problems = verify(opened)
        assert bool(problems) != reader.is_mended, damage
        assert all(damage.file in line for _, line in problems), f"{damage}: {problems}"
        return "verify"


@pytest.mark.parametrize(
    ("read", "num_places"),
    [
        (read_locally, 40),
        *((read, 16) for read in READERS[1:]),
        *(pytest.param(read, 200, marks=pytest.mark.slow) for read in READERS),
    ],
)
def test_damage_anywhere_is_found_and_not_trained_on(store, files, tmp_path, read, num_places):
    whole = list(read_batches(Store.open(store)))
    reader = read(store, tmp_path)
    found = Counter(check(reader, damage, whole) for damage in draw_damages(files, num_places))
    assert set(found) == ({"verify"} if reader.is_mended else {"open", "read", "verify"})
