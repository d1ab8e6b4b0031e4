"""What an editor asks of names: completion, definitions, references, renaming, symbols."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer

from tawa.axon.tools.columns import Columns
from tawa.axon.tools.scopes import Occurrence, Position, Scopes, binder_span, scopes_of
from tawa.axon.typing.language import axon
from tawa.base.source import Span
from tawa.functional import syntax as s
from tawa.functional.language import CheckedModule
from tawa.functional.show import TypePrinter

KEYWORDS = ("def", "let", "letrec", "in", "fn", "if", "then", "else", "match", "with", "import")


@dataclass
class Documents:
    """What a server knows of its documents.

    `last` is the last state of each that had no mistake, or the first, `current` the state of its
    text as it is now, without the definitions that have mistakes, if it could be checked at all,
    and `whole` says which of these have none.
    """

    last: dict[str, CheckedModule] = field(default_factory=dict[str, CheckedModule])
    current: dict[str, CheckedModule] = field(default_factory=dict[str, CheckedModule])
    whole: set[str] = field(default_factory=set[str])

    def note(self, uri: str, module: CheckedModule | None, is_whole: bool) -> None:
        """Keep what came of checking a document."""
        self.current.pop(uri, None)
        self.whole.discard(uri)
        if module is not None:
            self.current[uri] = module
            self.last.setdefault(uri, module)
        if module is not None and is_whole:
            self.last[uri] = module
            self.whole.add(uri)

    def forget(self, uri: str) -> None:
        """Drop what is known of a document that was closed."""
        self.note(uri, None, False)
        self.last.pop(uri, None)


def position_range(span: Span) -> lsp.Range:
    """A span as LSP counts: lines from 0."""
    return lsp.Range(
        lsp.Position(span.line - 1, span.column), lsp.Position(span.end_line - 1, span.end_column)
    )


def type_text(
    module: CheckedModule, node: s.Node, printer: TypePrinter | None = None
) -> str | None:
    """The type or scheme of a node as text; None if there is none."""
    inference = module.inference
    shown = printer or inference.printer()
    scheme = inference.schemes.get(node)
    if scheme is not None and scheme.variables:
        return shown.scheme(scheme)
    type_ = inference.types.get(node)
    return None if type_ is None else shown.type(inference.solver.resolve(type_))


def documentation(module: CheckedModule, name: str) -> str:
    """The doc comment of a definition or built-in."""
    for syntax in (module.syntax, axon().prelude_module):
        for declaration in syntax.declarations:
            if getattr(declaration, "name", None) == name:
                return getattr(declaration, "doc", "")
    return ""


def _position(position: lsp.Position) -> Position:
    return position.line + 1, position.character


def _location(span: Span, uri: str) -> lsp.Location:
    """A place in this document, or in the file that it is in."""
    path = Path(span.file)
    elsewhere = path.is_absolute() and not uri.endswith(path.as_posix())
    return lsp.Location(path.as_uri() if elsewhere else uri, position_range(span))


def _occurrence(module: CheckedModule | None, at: lsp.Position) -> tuple[Scopes, Occurrence] | None:
    if module is None:
        return None
    scopes = scopes_of(module)
    found = scopes.at(_position(at))
    return None if found is None else (scopes, found)


def completions(
    module: CheckedModule, at: lsp.Position, before: CheckedModule | None = None
) -> list[lsp.CompletionItem]:
    """The names that are bound at a position, built-in ones, and keywords.

    `before` is an earlier state, of which definitions are missing that have a mistake now.
    """
    items: dict[str, lsp.CompletionItem] = {}
    visible: dict[str, s.Node] = {}
    if before is not None:
        visible.update((made.name, made) for made in before.syntax.definitions())
    visible.update(scopes_of(module).visible(_position(at)))
    for name, binder in visible.items():
        function = isinstance(binder, s.Definition)
        kind = lsp.CompletionItemKind.Function if function else lsp.CompletionItemKind.Variable
        text = type_text(module, binder) or (before and type_text(before, binder)) or None
        items[name] = lsp.CompletionItem(name, kind=kind, detail=text,
                                         documentation=documentation(module, name))  # fmt: skip
    for name, scheme in axon().built_ins.items():
        if name not in items and re.match(r"[a-z]\w*$", name):
            detail = module.inference.printer().scheme(scheme)
            items[name] = lsp.CompletionItem(
                name, kind=lsp.CompletionItemKind.Function, detail=detail,
                documentation=documentation(module, name),
            )  # fmt: skip
    for word in KEYWORDS:
        items.setdefault(word, lsp.CompletionItem(word, kind=lsp.CompletionItemKind.Keyword))
    return list(items.values())


def definition(module: CheckedModule | None, uri: str, at: lsp.Position) -> lsp.Location | None:
    """Where the name at a position is bound."""
    found = _occurrence(module, at)
    if found is None or found[1].binder is None:
        return None
    return _location(binder_span(found[1].binder), uri)


def references(module: CheckedModule | None, uri: str, at: lsp.Position) -> list[lsp.Location]:
    """Where what the name at a position means is used, and where it is bound."""
    found = _occurrence(module, at)
    if found is None:
        return []
    scopes, occurrence = found
    return [_location(other.span, uri) for other in scopes.same(occurrence)]


def renamed(
    module: CheckedModule | None, uri: str, at: lsp.Position, name: str
) -> lsp.WorkspaceEdit | None:
    """The edits that give a name's binding another name; None for names that aren't bound here.

    Nothing is renamed to what is no name, or to a name that means something else at one of the
    places.
    """
    found = _occurrence(module, at)
    if found is None or module is None or not re.fullmatch(r"[a-z_]\w*", name) or name in KEYWORDS:
        return None
    scopes, occurrence = found
    binder = occurrence.binder
    if binder is None or not _is_here(module, binder):
        return None
    places = [other.span for other in scopes.same(occurrence)]
    if name in axon().built_ins:
        return None
    if any(name in scopes.visible((span.line, span.column)) for span in places):
        return None
    edits = [lsp.TextEdit(position_range(span), name) for span in places]
    return lsp.WorkspaceEdit(changes={uri: edits})


def _is_here(module: CheckedModule, binder: s.Node) -> bool:
    return not isinstance(binder, s.Definition) or binder in set(module.syntax.definitions())


def symbols(module: CheckedModule) -> list[lsp.DocumentSymbol]:
    """The definitions of a module, with their types."""
    return [
        lsp.DocumentSymbol(
            made.name, lsp.SymbolKind.Function, position_range(made.span),
            position_range(made.name_span), detail=type_text(module, made),
        )
        for made in module.syntax.definitions()
    ]  # fmt: skip


def add_navigation(server: LanguageServer, documents: Documents, columns: Columns) -> None:
    """Let a server answer all of this.

    Places are those of the text as it is now: where that can't be checked there are none, but
    completions. Nothing is renamed in a text with mistakes, as names in them would be left out.
    """

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION)
    def complete(params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
        uri = params.text_document.uri
        before = documents.last.get(uri)
        module = documents.current.get(uri, before)
        at = columns.inside(uri, params.position)
        return [] if module is None else completions(module, at, before)

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def define(params: lsp.DefinitionParams) -> lsp.Location | None:
        uri = params.text_document.uri
        at = columns.inside(uri, params.position)
        found = definition(documents.current.get(uri), uri, at)
        return None if found is None else columns.location(found)

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    def refer(params: lsp.ReferenceParams) -> list[lsp.Location]:
        uri = params.text_document.uri
        at = columns.inside(uri, params.position)
        found = references(documents.current.get(uri), uri, at)
        return [columns.location(location) for location in found]

    @server.feature(lsp.TEXT_DOCUMENT_RENAME)
    def rename(params: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
        uri = params.text_document.uri
        module = documents.current.get(uri) if uri in documents.whole else None
        edit = renamed(module, uri, columns.inside(uri, params.position), params.new_name)
        for change in (edit.changes or {}).get(uri, ()) if edit is not None else ():
            change.range = columns.outside(uri, change.range)
        return edit

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def list_symbols(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        uri = params.text_document.uri
        module = documents.current.get(uri)
        found = [] if module is None else symbols(module)
        for symbol in found:
            symbol.range = columns.outside(uri, symbol.range)
            symbol.selection_range = columns.outside(uri, symbol.selection_range)
        return found

    _: Any = (complete, define, refer, rename, list_symbols)
