"""What takes long to make and is the same in every process: parse tables, built-ins, libraries.

A language may name a shelf on which these are kept. The key is the text that they are made from and
the source that makes them, so nothing out of date is ever read; what is read is data, never code.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeVar, cast

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

from tawa.base.import_closure import PACKAGE, Store
from tawa.base.object_text import Classes, Unreadable, Unwritable, object_of, text_of
from tawa.functional.tables import Data, tables_of

__all__ = ["Shelf", "kept_object", "kept_parser", "kept_tables"]

T = TypeVar("T")

TABLES = {"states", "starts", "ends", "rules", "terminals", "words", "ignored"}
"""The keys of what `tables_of` makes."""


@dataclass(frozen=True)
class Shelf:
    """Where a language keeps what takes long to make."""

    store: Store
    source: str
    """A digest of the source that makes what is kept (`tawa.base.import_closure`)."""
    classes: Classes
    """The classes of what is kept."""

    def key(self, *parts: str) -> str:
        """The key of what is made of some texts.

        Where the package is installed counts: what is kept has spans in its files, by their paths.
        """
        digest = sha256(f"{self.source} {PACKAGE} {sys.version}".encode())
        for part in parts:
            digest.update(f"{len(part)} {part}".encode())
        return digest.hexdigest()


def kept_object(shelf: Shelf | None, parts: list[str], make: Callable[[], T]) -> T:
    """What `make` makes from `parts`, from the shelf if it is there."""
    if shelf is None:
        return make()
    key = shelf.key("object", *parts)
    entry = shelf.store.get(key)
    if entry is not None:
        with suppress(Unreadable, KeyError):
            return object_of(entry["object"], shelf.classes)
    made = make()
    with suppress(Unwritable):  # made again in every process
        shelf.store.put(key, {"object": text_of(made, shelf.classes)})
    return made


def kept_parser(
    shelf: Shelf | None, grammar: str, options: dict[str, Any], callbacks: dict[str, Any]
) -> Lark:
    """A parser for a grammar, from tables on the shelf if they are there.

    `callbacks` are called by the lexer, each for a terminal.
    """
    if shelf is None:
        return Lark(grammar, **options, lexer_callbacks=callbacks)
    key = shelf.key("parser", lark.__version__, grammar, repr(options))
    entry = shelf.store.get(key)
    if entry is not None:
        with suppress(Unreadable, KeyError, TypeError, ValueError):
            loader: Any = Lark  # its methods for this have no types
            data, memo = object_of(entry["tables"], {})
            return loader._load_from_dict(data, memo, lexer_callbacks=callbacks)
    made = Lark(grammar, **options, lexer_callbacks=callbacks)
    serialiser: Any = made
    data, memo = serialiser.memo_serialize([TerminalDef, Rule])
    data["options"] = {**data["options"], "lexer_callbacks": {}}
    shelf.store.put(key, {"tables": text_of((data, memo), {})})
    return made


def kept_tables(
    shelf: Shelf | None, grammar: str, options: dict[str, Any], parser: Callable[[], Lark]
) -> Data:
    """The tables of a parser for a grammar, from the shelf if they are there."""
    if shelf is None:
        return tables_of(parser())
    key = shelf.key("tables", lark.__version__, grammar, repr(options))
    entry = shelf.store.get(key)
    if entry is not None:
        with suppress(ValueError, KeyError):
            found = json.loads(entry["tables"])
            if isinstance(found, dict) and found.keys() >= TABLES:
                return cast(Data, found)
    made = tables_of(parser())
    shelf.store.put(key, {"tables": json.dumps(made).encode()})
    return made
