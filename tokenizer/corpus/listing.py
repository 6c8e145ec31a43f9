"""The input shards of a corpus, in a fixed order."""

import glob
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Literal

from tokenizer.corpus.config import CorpusConfig
from tokenizer.corpus.documents import InputShard, SourceFile
from tokenizer.corpus.folders import find_folder_files, is_array_record, is_parquet, is_table, source_file
from tokenizer.corpus.packages import find_package_files
from tokenizer.corpus.remote import Found, find_remote, is_url, local_path
from tokenizer.errors import CorpusError

__all__ = ["list_shards"]

PACKAGES = "packages:"
REMOTE_FOOTERS = 16


def list_shards(config: CorpusConfig) -> list[InputShard]:
    """List the input shards of a corpus: the same order and names for the same files, whatever the file system.

    Sources come in the order of ``config.paths``. Source files are grouped in the order of a hash of their paths, so
    that the first shards are a fair sample of all repositories. Raises CorpusError for a source that is missing,
    empty, unreadable or given twice.
    """
    if not config.paths:
        raise CorpusError('corpus.paths must name at least one source of documents, got none; try "packages:"')
    shards: list[InputShard] = []
    single_files: list[SourceFile] = []
    for path in config.paths:
        if path.startswith(PACKAGES):
            names = tuple(path.removeprefix(PACKAGES).split(",")) if path != PACKAGES else ()
            if not all(name.strip() for name in names):
                raise CorpusError(f"corpus.paths must name packages between commas, none of them empty, got {path!r}")
            shards += _file_shards("packages", find_package_files(names, config.extensions), config)
        else:
            for found in _find(path, config):
                shards += _found_shards(found, config, single_files)
    shards += _file_shards("files", single_files, config)
    if not shards:
        raise CorpusError(f"corpus.paths must hold at least one document, got none in {', '.join(config.paths)}")
    _refuse_repeats(shards)
    return _with_unique_names(shards)


def _find(path: str, config: CorpusConfig) -> list[Found]:
    path = local_path(path) or path
    if is_url(path):
        return find_remote(path, config.extensions)
    return [_find_local(match, config) for match in _matches(path)]


def _matches(path: str) -> list[Path]:
    path = str(Path(path).expanduser())
    if Path(path).exists():
        return [Path(path)]
    found = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 (absolute patterns too)
    if not found:
        raise CorpusError(
            f"corpus.paths must be files, folders, globs or packages:NAMES, got {path!r}, which is not there"
        )
    return [Path(match) for match in found]


def _find_local(path: Path, config: CorpusConfig) -> Found:
    location = path.resolve()
    if path.is_dir():
        return Found(location.name, find_folder_files(path, config.extensions))
    file = source_file(str(location), location.parent.name, f"{location.parent.name}/{location.name}")
    if file is None:
        raise CorpusError(f"corpus.paths must be files or folders, got {path}")
    return Found(None, [file])


def _found_shards(found: Found, config: CorpusConfig, single_files: list[SourceFile]) -> Iterator[InputShard]:
    """Yield the shards of a folder or a table; collect a file that is one document in ``single_files``."""
    sources = [file for file in found.files if not is_table(file.path)]
    if found.folder is None:
        single_files += sources
    else:
        yield from _file_shards(_slug(found.folder), sources, config)
    tables = [file for file in found.files if is_table(file.path)]
    # Footers elsewhere are waited for, many at a time; their order stays.
    with ThreadPoolExecutor(REMOTE_FOOTERS) as threads:
        is_remote = any(is_url(file.location) for file in tables)
        for shards in (threads.map if is_remote else map)(lambda file: list(_table_shards(file, config)), tables):
            yield from shards


def _table_shards(file: SourceFile, config: CorpusConfig) -> Iterator[InputShard]:
    name = _slug(Path(file.path).name.split(".")[0])
    if is_parquet(file.path):
        from tokenizer.corpus.parquet import row_group_sizes  # pyarrow takes 0.1 s to import

        yield from _part_shards(name, "parquet", file, row_group_sizes(file, config), config)
    elif is_array_record(file.path) and is_url(file.location):
        # Read as a whole: its records are found from its end, and by a library that opens local files alone.
        yield InputShard(name=name, size=file.size, identity=_identity([file]), reader="array_record", files=(file,))
    elif is_array_record(file.path):
        from tokenizer.corpus.array_records import record_run_sizes  # grain takes a second to import

        yield from _part_shards(name, "array_record", file, record_run_sizes(file, config), config)
    else:
        from tokenizer.corpus.json_lines import line_spans

        yield from _line_shards(name, file, line_spans(file, config))


def _part_shards(
    name: str,
    reader: Literal["parquet", "array_record"],
    file: SourceFile,
    sizes: Iterable[tuple[int, int]],
    config: CorpusConfig,
) -> Iterator[InputShard]:
    """Yield the shards of a table that is read in numbered parts, given as (number, bytes)."""
    for part, (numbers, size) in enumerate(_grouped(sizes, config.shard_bytes)):
        yield InputShard(
            name=f"{name}-{part:05d}",
            size=size,
            identity=_identity([file], numbers),
            reader=reader,
            files=(file,),
            row_groups=tuple(numbers),
        )


def _line_shards(name: str, file: SourceFile, spans: list[tuple[int, int]]) -> Iterator[InputShard]:
    """Yield the shards of a file of JSON lines: one, or one a span of bytes."""
    if len(spans) < 2:
        yield InputShard(name=name, size=file.size, identity=_identity([file]), reader="jsonl", files=(file,))
        return
    for part, span in enumerate(spans):
        yield InputShard(
            name=f"{name}-{part:05d}",
            size=span[1] - span[0],
            identity=_identity([file], span),
            reader="jsonl",
            files=(file,),
            span=span,
        )


def _file_shards(name: str, files: list[SourceFile], config: CorpusConfig) -> Iterator[InputShard]:
    files = sorted(files, key=lambda file: _digest(f"{file.repository}\0{file.path}"))
    sizes = ((file, file.size) for file in files)
    for part, (group, size) in enumerate(_grouped(sizes, config.shard_bytes)):
        yield InputShard(
            name=f"{name}-{part:05d}", size=size, identity=_identity(group), reader="text", files=tuple(group)
        )


def _grouped(sizes: Iterable[tuple], limit: int) -> Iterator[tuple[list, int]]:
    """Cut (item, size) pairs into runs whose sizes sum to at most ``limit``, or that hold one item."""
    group, total = [], 0
    for item, size in sizes:
        if group and total + size > limit:
            yield group, total
            group, total = [], 0
        group.append(item)
        total += size
    if group:
        yield group, total


def _identity(files: list[SourceFile], part: Iterable[int] = ()) -> str:
    lines = [f"{file.location}\0{file.size}\0{file.modified}{file.version}" for file in files]
    return _digest("\n".join([*lines, *map(str, part)]))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=16).hexdigest()


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:80] or "_"


def _refuse_repeats(shards: list[InputShard]) -> None:
    parts = Counter((file.location, shard.row_groups, shard.span) for shard in shards for file in shard.files)
    for (location, *_), count in parts.items():
        if count > 1:
            raise CorpusError(f"corpus.paths must give every file once, got {location} {count} times")


def _with_unique_names(shards: list[InputShard]) -> list[InputShard]:
    """Append a digest of the first file's location to names that, but perhaps for case, an earlier shard has.

    So more sources at the end leave the names before them as they are.
    """
    taken: set[str] = set()
    named = []
    for shard in shards:
        if shard.name.lower() in taken:
            shard = replace(shard, name=f"{shard.name}-{_digest(shard.files[0].location)[:8]}")
        taken.add(shard.name.lower())
        named.append(shard)
    return named
