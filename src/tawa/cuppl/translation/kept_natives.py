"""The core of natives, kept for other processes: translating them takes longer than reading it."""

from __future__ import annotations

import hashlib
import marshal
import pickle
from functools import cache
from pathlib import Path

from tawa.cuppl.core.ir import Function
from tawa.runtime.cache import content_key, default_cache

__all__ = ["keep_natives", "kept_native", "note_native", "own_source"]

_new: dict[str, bytes] = {}


@cache
def own_source() -> str:
    """A digest of this package: of the natives and of all that translates them."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _key() -> str:
    return content_key("cuppl natives", own_source())


@cache
def _known() -> dict[str, bytes]:
    entry = default_cache().get(_key())
    return marshal.loads(entry["natives"]) if entry else {}


def kept_native(name: str) -> Function | None:
    """The core of a native, if it was kept."""
    found = _known().get(name)
    return pickle.loads(found) if found else None


def note_native(function: Function) -> None:
    """Keep the core of a native when `keep_natives` is called next."""
    _new[function.name] = pickle.dumps(function)


def keep_natives() -> None:
    """Write down what was noted since the last time."""
    if _new:
        _known().update(_new)
        _new.clear()
        default_cache().put(_key(), {"natives": marshal.dumps(_known())})
