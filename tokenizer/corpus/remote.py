"""Files on the file systems of fsspec (memory, http, s3, gs, hf, archives, chains of these): finding them."""

import re
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from tokenizer.corpus.documents import SourceFile
from tokenizer.corpus.folders import SKIPPED_FOLDERS, is_wanted
from tokenizer.corpus.retrying import with_retries
from tokenizer.corpus.web import WebFiles
from tokenizer.errors import CorpusError, SourceError

__all__ = ["Found", "filesystem_of", "find_remote", "is_url", "local_path", "look_up", "refuse_change"]

# What tells one state of a file from another, best first; no file system has all of these.
VERSIONS = ("ETag", "etag", "Content-MD5", "md5Hash", "blob_id", "sha", "CRC")
TIMES = ("mtime", "modified", "LastModified", "last_modified", "created")


class Found(NamedTuple):
    """Files found at a source: those of a folder of this name, or (None) single ones."""

    folder: str | None
    files: list[SourceFile]


def is_url(path: str) -> bool:
    """Whether a path names a file system: `s3://bucket/file`, `zip://file::https://host/archive.zip`."""
    return "://" in path


def has_magic(path: str) -> bool:
    """Whether a path is a glob; a question mark begins the query of a URL."""
    return "*" in path or "[" in path


def local_path(url: str) -> str | None:
    """The path that a `file://` URL means; None for other file systems.

    >>> local_path("file:///data/a.jsonl")
    '/data/a.jsonl'
    """
    match = re.fullmatch(r"(?:file|local)://(.*)", url)
    return match[1] if match and "::" not in url else None


def filesystem_of(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the URL's path there; CorpusError when it is unknown or not installed.

    Plain files behind http(s) need nothing installed; lists of them, and what is chained on them, take fsspec's.
    """
    if re.match(r"https?://", url) and "::" not in url and not has_magic(url):
        return WebFiles(), url
    from fsspec.core import url_to_fs

    try:
        return url_to_fs(url)
    except ImportError as error:
        raise CorpusError(
            f"file system of {url} must be installed, got {str(error).rstrip('.')}; pip install 'dyadlm[remote]'"
        ) from None
    except ValueError as error:
        raise CorpusError(f"corpus.paths must be URLs that fsspec can open, got {url!r} ({error})") from None


def find_remote(url: str, extensions: tuple[str, ...]) -> list[Found]:
    """List the files of a URL, of a folder, or of a glob (with `*` or `[`), in the order of their locations."""
    head, *rest = url.split("::", 1)
    filesystem, path = with_retries(lambda: filesystem_of(url), url)
    if not has_magic(head):
        info = look_up(url)
        return [_found(filesystem, path, url, info, extensions)]
    base = head[: re.search(r"[*[]", head).start()].rpartition("/")[0] + "/"  # type: ignore[union-attr]
    matches: Any = with_retries(lambda: filesystem.glob(path, detail=True), url)
    found = []
    for match, info in sorted(matches.items()):
        location = "::".join([_below(filesystem, base, match), *rest])
        info = _whole_info(location, info)
        new = _found(filesystem, match, location, info, extensions)
        if found and found[-1].folder is new.folder is None:
            found[-1].files.extend(new.files)
        else:
            found.append(new)
    if not found:
        raise CorpusError(f"corpus.paths must be files, folders, globs or packages:NAMES, got {url!r}, which is empty")
    return found


def look_up(url: str) -> dict[str, Any]:
    """What a file system says about a file now; SourceError when it is not there."""
    filesystem, path = with_retries(lambda: filesystem_of(url), url)

    def ask() -> dict[str, Any]:
        filesystem.invalidate_cache()
        return filesystem.info(path)

    return with_retries(ask, url)


def refuse_change(file: SourceFile) -> None:
    """Raise SourceError unless a remote file is as it was when the corpus was listed."""
    now = source_of(look_up(file.location), file.location, file.repository, file.path)
    if now != file:
        raise SourceError(
            f"source must stay as it is while it is read, got {now.size} bytes {now.version} after {file.size} bytes "
            f"{file.version}: {file.location}; run again on what is there now"
        )


def _found(filesystem: Any, path: str, url: str, info: dict[str, Any], extensions: tuple[str, ...]) -> Found:
    if info["type"] == "directory":
        return _folder(filesystem, path, url, extensions)
    # Caches have no path of their own: simplecache::s3://bucket/file.
    path_part = next(part for part in url.split("::") if "://" in part).split("://", 1)[1]
    head = PurePosixPath(re.split("[?#]", path_part)[0])
    place = head.parent.name or _name(url)
    return Found(None, [source_of(info, url, place, f"{place}/{head.name}")])


def _folder(filesystem: Any, path: str, url: str, extensions: tuple[str, ...]) -> Found:
    """The source files and tables under a folder, by the rules of local ones."""
    head, *rest = url.split("::", 1)
    base = head if head.endswith("/") else head + "/"
    name = _name(url)
    listed: Any = with_retries(lambda: filesystem.find(path, detail=True), url)
    files = []
    for place, info in sorted(listed.items()):
        location = _below(filesystem, base, place)
        relative = PurePosixPath(location.removeprefix(base))
        is_hidden = any(part.startswith(".") or part in SKIPPED_FOLDERS for part in relative.parts[:-1])
        if is_hidden or not is_wanted(relative, extensions):
            continue
        repository = name if len(relative.parts) == 1 else relative.parts[0]
        location = "::".join([location, *rest])
        info = _whole_info(location, info)
        files.append(source_of(info, location, repository, relative.as_posix()))
    return Found(name, files)


def _whole_info(url: str, listed: dict[str, Any]) -> dict[str, Any]:
    """What a list says of a file, or what is said of the file alone where lists spell times otherwise or leave out."""
    is_whole = listed["type"] == "directory" or (listed.get("size") is not None and listed.keys() & set(VERSIONS))
    return listed if is_whole else look_up(url)


def _below(filesystem: Any, base: str, path: str) -> str:
    """URL of a path that was listed under the URL `base`: file systems leave out hosts and protocols."""
    root = str(filesystem._strip_protocol(base))
    return base + path.removeprefix(root).lstrip("/")


def _name(url: str) -> str:
    """Last name in a URL, or that of the archive that it is the root of.

    >>> _name("zip://::memory://data/code.zip")
    'code.zip'
    """
    names = [part.split("://", 1)[-1].rstrip("/").rpartition("/")[2] for part in url.split("::")]
    return next(filter(None, names), "remote")


def source_of(info: dict[str, Any], location: str, repository: str, path: str) -> SourceFile:
    """A remote file as the corpus knows it, by what its file system says of it."""
    size = info.get("size")
    if not isinstance(size, int):
        raise SourceError(f"source must tell its size in bytes, got none: {location}; copy it to a disk first")
    version = next((str(info[key]) for key in (*VERSIONS, *TIMES) if info.get(key)), "")
    return SourceFile(location=location, repository=repository, path=path, size=size, modified=0, version=version)
