"""Compiled kernels on disk, by content: safe among processes, bounded, and checked when read.

An entry is one file: a JSON line with the sizes and the SHA-256 of what follows, then the parts.
It is written under another name and renamed, so a reader sees all of it or nothing. An entry that
does not match its digest is removed, and its kernel compiled again. What is read is run, so a
folder that others may write to is not used at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from tawa.base.knobs import CACHE_DIR
from tawa.runtime.own_folder import others_may_write

FORMAT = "tawa-cache-1"
LIMIT = 2**30
"""Bytes that a cache may take; the entries used longest ago go first."""

SUFFIX = ".kernel"
FOLDERS = 256
"""Entries lie in folders named by the first two digits of their keys."""

UNFINISHED_SECONDS = 3600
"""A temporary file older than this was left by a process that died."""

ROOM = "room.txt"
"""File that says how many bytes more may be written before all entries are looked at again."""

SPARE = 32
"""Where entries have to go, so many go that a part of the limit becomes free: one of this many."""

RECENT_SECONDS = 60
"""An entry's time of use is not written again within this time."""


class CacheUnwritable(UserWarning):
    """The cache can't be written; kernels are compiled again in every process."""


class CacheRefused(UserWarning):
    """Others may write to the cache's folder, so nothing is read from it or written to it."""


def content_key(*parts: str | bytes) -> str:
    """A name for the content of `parts`: other parts, or the same split otherwise, differ."""
    digest = hashlib.sha256(FORMAT.encode())
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class Cache:
    """A folder of entries, each a mapping from names to bytes under a content key."""

    def __init__(self, folder: Path, limit: int = LIMIT) -> None:
        self.folder = folder
        self.limit = limit

    def get(self, key: str) -> dict[str, bytes] | None:
        """The entry of `key`, or None if there is none that can be read."""
        if refused(self.folder):
            return None
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        entry = _decode(data)
        with contextlib.suppress(OSError):
            if entry is None:
                path.unlink()
            elif time.time() - path.stat().st_mtime > RECENT_SECONDS:
                os.utime(path)
        return entry

    def has(self, key: str) -> bool:
        """Whether there is an entry of `key`, readable or not."""
        return not refused(self.folder) and self._path(key).exists()

    def put(self, key: str, entry: Mapping[str, bytes]) -> None:
        """Store an entry; warns with `CacheUnwritable` if the folder can't be written."""
        if refused(self.folder):
            return
        path = self._path(key)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.parent.mkdir(exist_ok=True)
            data = _encode(entry)
            _write_whole(path, data)
            # A walk through all entries takes long: only when this folder has more than its share,
            # and more was written since the last walk than there was room for.
            beside = sum(size for _, size, _ in self._entries(f"{key[:2]}/*"))
            if beside > self.limit // FOLDERS and not self._fits(len(data)):
                self.trim()
        except OSError as error:
            warnings.warn(f"{self.folder}: {error}", CacheUnwritable, stacklevel=2)

    def trim(self) -> None:
        """Remove the entries used longest ago until the rest fit the limit."""
        entries = sorted(self._entries(), key=lambda entry: entry[0])
        total = sum(size for _, size, _ in entries)
        most = self.limit if total <= self.limit else self.limit - self.limit // SPARE
        for _, size, path in entries:
            if total <= most:
                break
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size
        self._room().write_text(str(self.limit - total))

    def _room(self) -> Path:
        return self.folder / ROOM

    def _fits(self, size: int) -> bool:
        """Whether there was room at the last walk for what was written to full folders since."""
        try:
            left = int(self._room().read_text()) - size
        except (OSError, ValueError):
            return False
        self._room().write_text(str(left))
        return left >= 0

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / (key + SUFFIX)

    def _entries(self, pattern: str = "*/*") -> list[tuple[float, int, Path]]:
        """Time of use, size and path of each entry; removes what dead processes left."""
        found: list[tuple[float, int, Path]] = []
        for path in self.folder.glob(pattern):
            with contextlib.suppress(OSError):
                status = path.stat()
                if path.suffix == SUFFIX:
                    found.append((status.st_mtime, status.st_size, path))
                elif time.time() - status.st_mtime > UNFINISHED_SECONDS:
                    path.unlink()
        return found


@cache
def refused(folder: Path) -> bool:
    """Whether a folder may not be used; warns with `CacheRefused`, once a process."""
    why = others_may_write(folder)
    if why is not None:
        hint = "remove that right (chmod go-w), or set TAWA_CACHE_DIR to a folder of your own"
        warnings.warn(f"the cache is not used: {why}; {hint}", CacheRefused, stacklevel=4)
    return why is not None


def default_cache() -> Cache:
    """The cache in the folder that the knob `TAWA_CACHE_DIR` names."""
    return Cache(CACHE_DIR.get())


def _encode(entry: Mapping[str, bytes]) -> bytes:
    payload = b"".join(entry.values())
    header = {
        "format": FORMAT,
        "parts": {name: len(data) for name, data in entry.items()},
        "sha256": hashlib.sha256(payload).hexdigest(),
    }
    return json.dumps(header).encode() + b"\n" + payload


def _decode(data: bytes) -> dict[str, bytes] | None:
    """The parts of an entry's file, or None if it is not what was written."""
    line, _, payload = data.partition(b"\n")
    try:
        header = cast("dict[str, Any]", json.loads(line))
        parts = cast("dict[str, int]", header["parts"])
        intact = header["format"] == FORMAT and sum(parts.values()) == len(payload)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if not intact or header["sha256"] != hashlib.sha256(payload).hexdigest():
        return None
    entry: dict[str, bytes] = {}
    start = 0
    for name, size in parts.items():
        entry[name] = payload[start : start + size]
        start += size
    return entry


def _write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it appears under its name only when it is complete."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem[:8])
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
