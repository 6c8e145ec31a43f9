"""Files found under folders, and what their places say about their source."""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from tokenizer.corpus.documents import SourceFile

__all__ = ["find_folder_files", "is_json_lines", "is_parquet", "source_file"]

SKIPPED_FOLDERS = ("__pycache__", "node_modules")


def is_parquet(path: str) -> bool:
    """Whether a path names a Parquet file."""
    return path.lower().endswith(".parquet")


def is_json_lines(path: str) -> bool:
    """Whether a path names JSON lines, compressed or not."""
    return re.search(r"\.(json|jsonl|ndjson)(\.gz|\.zst)?$", path.lower()) is not None


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
    """List the source files, Parquet files and JSON lines under a folder, in the order of their paths.

    The repository of a file is the folder itself when that is a git work tree, else the first folder below it on the
    way to the file. Hidden folders, ``__pycache__`` and ``node_modules`` are not entered, links not followed.
    ``.json`` files are data of the projects there, so they are left out unless ``extensions`` names them.
    """
    root = folder.resolve()
    is_one_repository = (root / ".git").exists()
    files = []
    for path in _walk(root):
        relative = path.relative_to(root)
        is_table = is_parquet(path.name) or (is_json_lines(path.name) and ".json" not in path.suffixes)
        if not is_table and path.suffix.lower().removeprefix(".") not in extensions:
            continue
        repository = root.name if is_one_repository or len(relative.parts) == 1 else relative.parts[0]
        file = source_file(str(path), repository, relative.as_posix())
        if file is not None:
            files.append(file)
    return files


def _walk(root: Path) -> Iterator[Path]:
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(n for n in subfolders if not n.startswith(".") and n not in SKIPPED_FOLDERS)
        for name in sorted(names):
            yield Path(folder, name)
