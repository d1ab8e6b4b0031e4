"""What takes long to make and is the same in every process: parse tables, built-ins, libraries.

A language may name a store in which these are kept. The key is the text that they are made from
and the source of this package, so nothing out of date is ever read.
"""

from __future__ import annotations

import hashlib
import marshal
import pickle
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

from tawa.functional.tables import Data, tables_of

__all__ = ["Store", "kept_object", "kept_parser", "kept_tables"]

T = TypeVar("T")


class Store(Protocol):
    """Entries by key, each a mapping from names to bytes."""

    def get(self, key: str) -> dict[str, bytes] | None:
        """An entry, or None."""
        ...

    def put(self, key: str, entry: Mapping[str, bytes]) -> None:
        """Keep an entry."""
        ...


def kept_object(store: Store | None, parts: list[str], make: Callable[[], T]) -> T:
    """What `make` makes from `parts`, from the store if it is there."""
    if store is None:
        return make()
    key = _key("object", *parts)
    entry = store.get(key)
    if entry is not None:
        return pickle.loads(entry["object"])
    made = make()
    # A tree that is too deep for pickle is made again in every process.
    with suppress(RecursionError):
        store.put(key, {"object": pickle.dumps(made)})
    return made


def kept_parser(
    store: Store | None, grammar: str, options: dict[str, Any], callbacks: dict[str, Any]
) -> Lark:
    """A parser for a grammar, from tables in the store if they are there.

    `callbacks` are called by the lexer, each for a terminal.
    """
    if store is None:
        return Lark(grammar, **options, lexer_callbacks=callbacks)
    key = _key("parser", lark.__version__, grammar, repr(options))
    entry = store.get(key)
    if entry is not None:
        loader: Any = Lark  # its methods for this have no types
        tables: dict[str, Any] = marshal.loads(entry["tables"])
        return loader._load_from_dict(tables["data"], tables["memo"], lexer_callbacks=callbacks)
    made = Lark(grammar, **options, lexer_callbacks=callbacks)
    serialiser: Any = made
    data, memo = serialiser.memo_serialize([TerminalDef, Rule])
    data["options"] = {**data["options"], "lexer_callbacks": {}}
    store.put(key, {"tables": marshal.dumps({"data": data, "memo": memo})})
    return made


def kept_tables(
    store: Store | None, grammar: str, options: dict[str, Any], parser: Callable[[], Lark]
) -> Data:
    """The tables of a parser for a grammar, from the store if they are there."""
    if store is None:
        return tables_of(parser())
    key = _key("tables", lark.__version__, grammar, repr(options))
    entry = store.get(key)
    if entry is not None:
        return marshal.loads(entry["tables"])
    made = tables_of(parser())
    store.put(key, {"tables": marshal.dumps(made)})
    return made


def _key(*parts: str) -> str:
    digest = hashlib.sha256(_own_source().encode())
    for part in (sys.version, *parts):
        digest.update(f"{len(part)} {part}".encode())
    return digest.hexdigest()


@cache
def _own_source() -> str:
    """A digest of the modules whose classes are in what is kept, and of where they are installed.

    What is kept has spans in files of the installation, by their paths.
    """
    package = Path(__file__).parent
    digest = hashlib.sha256(str(package).encode())
    for path in sorted([*package.glob("*.py"), package.parent / "base" / "source.py"]):
        digest.update(path.read_bytes())
    return digest.hexdigest()
