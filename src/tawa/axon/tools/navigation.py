"""What an editor asks of names: completion, definitions, references, renaming, symbols."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer

from tawa.axon.tools.scopes import Occurrence, Position, Scopes, binder_span, scopes_of
from tawa.axon.typing.language import axon
from tawa.base.source import Span
from tawa.functional import syntax as s
from tawa.functional.language import CheckedModule
from tawa.functional.show import TypePrinter

KEYWORDS = ("def", "let", "letrec", "in", "fn", "if", "then", "else", "match", "with", "import")

Modules = dict[str, CheckedModule]
"""The last state of each document that could be checked."""


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


def completions(module: CheckedModule, at: lsp.Position) -> list[lsp.CompletionItem]:
    """The names that are bound at a position, built-in ones, and keywords."""
    items: dict[str, lsp.CompletionItem] = {}
    for name, binder in scopes_of(module).visible(_position(at)).items():
        function = isinstance(binder, s.Definition)
        kind = lsp.CompletionItemKind.Function if function else lsp.CompletionItemKind.Variable
        text = type_text(module, binder)
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


def add_navigation(server: LanguageServer, checked: Modules) -> None:
    """Let a server answer all of this."""

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION)
    def complete(params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
        module = checked.get(params.text_document.uri)
        return [] if module is None else completions(module, params.position)

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def define(params: lsp.DefinitionParams) -> lsp.Location | None:
        uri = params.text_document.uri
        return definition(checked.get(uri), uri, params.position)

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    def refer(params: lsp.ReferenceParams) -> list[lsp.Location]:
        uri = params.text_document.uri
        return references(checked.get(uri), uri, params.position)

    @server.feature(lsp.TEXT_DOCUMENT_RENAME)
    def rename(params: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
        uri = params.text_document.uri
        return renamed(checked.get(uri), uri, params.position, params.new_name)

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def list_symbols(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        module = checked.get(params.text_document.uri)
        return [] if module is None else symbols(module)

    _: Any = (complete, define, refer, rename, list_symbols)
