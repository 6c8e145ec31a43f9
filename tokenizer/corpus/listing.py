"""The input shards of a corpus, in a fixed order."""

import glob
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from tokenizer.corpus.config import CorpusConfig
from tokenizer.corpus.documents import InputShard, SourceFile
from tokenizer.corpus.folders import find_folder_files, is_json_lines, is_parquet, source_file
from tokenizer.corpus.packages import find_package_files
from tokenizer.errors import CorpusError

__all__ = ["list_shards"]

PACKAGES = "packages:"


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
            names = tuple(name for name in path.removeprefix(PACKAGES).split(",") if name.strip())
            shards += _file_shards("packages", find_package_files(names, config.extensions), config)
        else:
            for match in _matches(path):
                shards += _path_shards(match, config, single_files)
    shards += _file_shards("files", single_files, config)
    if not shards:
        raise CorpusError(f"corpus.paths must hold at least one document, got none in {', '.join(config.paths)}")
    _refuse_repeats(shards)
    return _with_unique_names(shards)


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


def _path_shards(path: Path, config: CorpusConfig, single_files: list[SourceFile]) -> Iterator[InputShard]:
    """Yield the shards of a folder or a table; collect a file that is one document in ``single_files``."""
    if path.is_dir():
        files = find_folder_files(path, config.extensions)
        sources = [file for file in files if not _is_table(file)]
        yield from _file_shards(_slug(path.resolve().name), sources, config)
    else:
        location = path.resolve()
        file = source_file(str(location), location.parent.name, f"{location.parent.name}/{location.name}")
        if file is None:
            raise CorpusError(f"corpus.paths must be files or folders, got {path}")
        files = [file]
        if not _is_table(file):
            single_files.append(file)
    for file in filter(_is_table, files):
        yield from _table_shards(file, config)


def _is_table(file: SourceFile) -> bool:
    return is_parquet(file.location) or is_json_lines(file.location)


def _table_shards(file: SourceFile, config: CorpusConfig) -> Iterator[InputShard]:
    name = _slug(Path(file.location).name.split(".")[0])
    if not is_parquet(file.location):
        yield InputShard(name=name, size=file.size, identity=_identity([file]), reader="jsonl", files=(file,))
        return
    from tokenizer.corpus.parquet import row_group_sizes  # pyarrow takes 0.1 s to import

    for part, (groups, size) in enumerate(_grouped(row_group_sizes(file.location, config), config.shard_bytes)):
        yield InputShard(
            name=f"{name}-{part:05d}",
            size=size,
            identity=_identity([file], groups),
            reader="parquet",
            files=(file,),
            row_groups=tuple(groups),
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


def _identity(files: list[SourceFile], row_groups: Iterable[int] = ()) -> str:
    lines = [f"{file.location}\0{file.size}\0{file.modified}" for file in files]
    return _digest("\n".join([*lines, *map(str, row_groups)]))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=16).hexdigest()


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:80] or "_"


def _refuse_repeats(shards: list[InputShard]) -> None:
    parts = Counter((file.location, shard.row_groups) for shard in shards for file in shard.files)
    for (location, _), count in parts.items():
        if count > 1:
            raise CorpusError(f"corpus.paths must give every file once, got {location} {count} times")


def _with_unique_names(shards: list[InputShard]) -> list[InputShard]:
    """Append a digest of the first file's location to names that differ at most in case."""
    counts = Counter(shard.name.lower() for shard in shards)
    return [
        shard
        if counts[shard.name.lower()] == 1
        else replace(shard, name=f"{shard.name}-{_digest(shard.files[0].location)[:8]}")
        for shard in shards
    ]
