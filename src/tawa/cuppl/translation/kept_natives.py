"""The core of natives, kept for other processes: translating them takes longer than reading it."""

from __future__ import annotations

from contextlib import suppress
from functools import cache

from tawa.base.import_closure import source_digest
from tawa.base.object_text import Unreadable, classes_of, object_of, text_of
from tawa.cuppl.core.ir import Function
from tawa.runtime.cache import content_key, default_cache

__all__ = ["keep_natives", "kept_native", "note_native", "own_source"]

MAKERS = "tawa.cuppl.model", "tawa.cuppl.cpu.executable"
"""What translates natives, and turns programs into code, with all that it imports."""

_new: dict[str, bytes] = {}


def own_source() -> str:
    """A digest of the natives and of all that translates them and makes code of them."""
    return source_digest(*MAKERS, store=default_cache())


@cache
def _classes() -> dict[str, type[object]]:
    return classes_of("tawa.cuppl.core.ir")


def _key() -> str:
    return content_key("cuppl natives", own_source())


@cache
def _known() -> dict[str, bytes]:
    return default_cache().get(_key()) or {}


def kept_native(name: str) -> Function | None:
    """The core of a native, if it was kept."""
    found = _known().get(name)
    if found is not None:
        with suppress(Unreadable):
            return object_of(found, _classes())
    return None


def note_native(function: Function) -> None:
    """Keep the core of a native when `keep_natives` is called next."""
    _new[function.name] = text_of(function, _classes())


def keep_natives() -> None:
    """Write down what was noted since the last time."""
    if _new:
        _known().update(_new)
        _new.clear()
        default_cache().put(_key(), _known())
