"""Files found under folders, and what their places say about their source."""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path, PurePath

from tokenizer.corpus.documents import SourceFile

__all__ = [
    "SKIPPED_FOLDERS",
    "find_folder_files",
    "is_array_record",
    "is_json_lines",
    "is_parquet",
    "is_table",
    "is_wanted",
    "source_file",
]

SKIPPED_FOLDERS = ("__pycache__", "node_modules")
MADE_HERE = ({"tokenizer.json", "provenance.json"}, {"manifest.json", "shards.parquet"})
"""Files that tell a folder of a tokenizer, or of a token store."""


def is_parquet(path: str) -> bool:
    """Whether a path names a Parquet file."""
    return path.lower().endswith(".parquet")


def is_json_lines(path: str) -> bool:
    """Whether a path names JSON lines, compressed or not."""
    return re.search(r"\.(json|jsonl|ndjson)(\.gz|\.zst)?$", path.lower()) is not None


def is_array_record(path: str) -> bool:
    """Whether a path names an ArrayRecord file."""
    return path.lower().endswith((".array_record", ".arrayrecord"))


def is_table(path: str) -> bool:
    """Whether a path names a file of many documents."""
    return is_parquet(path) or is_json_lines(path) or is_array_record(path)


def is_wanted(path: PurePath, extensions: tuple[str, ...]) -> bool:
    """Whether a file of a folder is taken: the tables, and source files of these extensions.

    ``.json`` files are data of the projects there, so they are left out unless ``extensions`` names them.
    """
    is_data = is_json_lines(path.name) and ".json" in path.suffixes
    return (is_table(path.name) and not is_data) or path.suffix.lower().removeprefix(".") in extensions


def source_file(location: str, repository: str, path: str) -> SourceFile | None:
    """Look a file up on disk; None when it is not there or is not a plain file.

    Names that are not UTF-8 show U+FFFD in ``repository`` and ``path``, which are text; ``location`` still opens them.
    """
    try:
        status = os.stat(location)  # noqa: PTH116 (15k files of the installed packages: 2x faster)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return SourceFile(
        location=location,
        repository=_as_text(repository),
        path=_as_text(path),
        size=status.st_size,
        modified=status.st_mtime_ns,
    )


def _as_text(name: str) -> str:
    return os.fsencode(name).decode(errors="replace")


def find_folder_files(folder: Path, extensions: tuple[str, ...]) -> list[SourceFile]:
    """List the source files and tables under a folder, in the order of their paths.

    The repository of a file is the folder itself when that is a git work tree, else the first folder below it on the
    way to the file. Hidden folders, ``__pycache__`` and ``node_modules`` are not entered, nor are tokenizers and stores
    that were written there; links are not followed.
    """
    root = folder.resolve()
    is_one_repository = (root / ".git").exists()
    files = []
    for path in _walk(root):
        relative = path.relative_to(root)
        if not is_wanted(relative, extensions):
            continue
        repository = root.name if is_one_repository or len(relative.parts) == 1 else relative.parts[0]
        file = source_file(str(path), repository, relative.as_posix())
        if file is not None:
            files.append(file)
    return files


def _walk(root: Path) -> Iterator[Path]:
    for folder, subfolders, names in os.walk(root):
        if any(files <= {*names} for files in MADE_HERE):
            subfolders.clear()
            continue
        subfolders[:] = sorted(n for n in subfolders if not n.startswith(".") and n not in SKIPPED_FOLDERS)
        for name in sorted(names):
            yield Path(folder, name)
