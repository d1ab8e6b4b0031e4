"""The language server: diagnostics, types on hover, inlay hints, formatting, and `navigation`."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote, urlparse

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer

from tawa import __version__
from tawa.axon.tools.check import checked_parts
from tawa.axon.tools.columns import Columns
from tawa.axon.tools.format import format_source
from tawa.axon.tools.navigation import (
    Documents,
    add_navigation,
    documentation,
    position_range,
    type_text,
)
from tawa.axon.typing.infer import AxonInference
from tawa.base.errors import TawaError
from tawa.functional import syntax as s
from tawa.functional.language import CheckedModule
from tawa.functional.show import TypePrinter
from tawa.functional.unused import unused_names


class AxonServer(LanguageServer):
    """The server, and the last good state of each open document."""

    def __init__(self) -> None:
        super().__init__("tawa-axon", __version__)  # pyright: ignore[reportUnknownMemberType]
        self.documents = Documents()
        self.columns = Columns(self)

    def check(self, uri: str) -> None:
        """Infer a document and publish what is wrong with it."""
        document = self.workspace.get_text_document(uri)
        path = unquote(urlparse(uri).path)
        module, errors = checked_parts(document.source, path)
        diagnostics = [diagnostic(error, uri, path) for error in errors]
        self.documents.note(uri, module, not errors)
        if module is not None:
            diagnostics += [unused(n) for d in module.syntax.definitions() for n in unused_names(d)]
        for found in diagnostics:
            found.range = self.columns.outside(uri, found.range)
            for more in found.related_information or ():
                more.location = self.columns.location(more.location)
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, diagnostics))

    def close(self, uri: str) -> None:
        """Forget a document, and take back what was wrong with it."""
        self.documents.forget(uri)
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))


def unused(name: s.NamePattern) -> lsp.Diagnostic:
    """A name that is never used, as the editor shows it."""
    return lsp.Diagnostic(
        range=position_range(name.span),
        message=f"`{name.name}` is never used; `_` is a name for what nobody uses",
        severity=lsp.DiagnosticSeverity.Warning,
        tags=[lsp.DiagnosticTag.Unnecessary],
        source="tawa axon",
    )


def diagnostic(error: TawaError, uri: str, path: str) -> lsp.Diagnostic:
    """An error as the editor shows it, with the other places to blame."""
    start = lsp.Position(0, 0)
    here = error.span if error.span is not None and error.span.file == path else None
    related = [
        lsp.DiagnosticRelatedInformation(lsp.Location(uri, position_range(n.span)), n.text)
        for n in error.notes
        if n.span is not None and n.span.file == path
    ]
    details = [error.message]
    details += [f"expected: {error.expected}"] if error.expected else []
    details += [f"found: {error.found}"] if error.found else []
    details += [f"help: {error.hint}"] if error.hint else []
    return lsp.Diagnostic(
        range=position_range(here) if here is not None else lsp.Range(start, start),
        message="\n".join(details),
        severity=lsp.DiagnosticSeverity.Error,
        code=type(error).__name__,
        source="tawa axon",
        related_information=related,
    )


def nodes_in(module: CheckedModule) -> Iterator[s.Node]:
    """All nodes of a module, outer ones first."""
    stack: list[s.Node] = []
    stack.extend(reversed(module.syntax.declarations))
    while stack:
        node = stack.pop()
        yield node
        stack.extend(list(s.children(node))[::-1])


def node_at(module: CheckedModule, position: lsp.Position) -> s.Node | None:
    """The smallest typed node at a position."""
    here = (position.line + 1, position.character)
    found: s.Node | None = None
    for node in nodes_in(module):
        span = node.span
        inside = (span.line, span.column) <= here < (span.end_line, span.end_column)
        if inside and (node in module.inference.types or node in module.inference.schemes):
            found = node
    return found


def hover_text(module: CheckedModule, node: s.Node) -> str | None:
    """What a hover says: name, type, and the doc comment of what is named."""
    text = type_text(module, node)
    if text is None:
        return None
    name = getattr(node, "name", None)
    shown = f"{name} : {text}" if isinstance(name, str) else text
    doc = documentation(module, name) if isinstance(name, str) else ""
    return f"```axon\n{shown}\n```" + (f"\n\n{doc}" if doc else "")


def inlay_hints(module: CheckedModule, visible: lsp.Range) -> list[lsp.InlayHint]:
    """The inferred type behind every name that is bound without an annotation."""
    annotated = {
        id(inner)
        for node in nodes_in(module)
        if isinstance(node, s.AnnotatedPattern)
        for inner in s.bound_names(node)
    }
    hints: list[lsp.InlayHint] = []
    if not isinstance(module.inference, AxonInference):
        return hints
    printer: TypePrinter = module.inference.printer()
    for node in nodes_in(module):
        if isinstance(node, s.Definition):
            printer = module.inference.printer()
        if not isinstance(node, s.NamePattern) or id(node) in annotated:
            continue
        line = node.span.line - 1
        if not visible.start.line <= line <= visible.end.line:
            continue
        text = type_text(module, node, printer)
        if text is not None:
            end = lsp.Position(node.span.end_line - 1, node.span.end_column)
            hints.append(lsp.InlayHint(end, f": {text}", lsp.InlayHintKind.Type, padding_left=True))
    return hints


def add_reading(made: AxonServer) -> None:
    """Let a server answer what is asked of the types in a document as it is now."""
    documents, columns = made.documents, made.columns

    @made.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        uri = params.text_document.uri
        module = documents.current.get(uri)
        node = None if module is None else node_at(module, columns.inside(uri, params.position))
        if module is None or node is None:
            return None
        text = hover_text(module, node)
        if text is None:
            return None
        content = lsp.MarkupContent(lsp.MarkupKind.Markdown, text)
        span = node.name_span if isinstance(node, s.Definition) else node.span
        return lsp.Hover(content, columns.outside(uri, position_range(span)))

    @made.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    def hints(params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        uri = params.text_document.uri
        module = documents.current.get(uri)
        found = [] if module is None else inlay_hints(module, params.range)
        for hint in found:
            hint.position = columns.outside(uri, lsp.Range(hint.position, hint.position)).start
        return found

    del hover, hints


def server() -> AxonServer:
    """A server with all its features."""
    made = AxonServer()
    add_navigation(made, made.documents, made.columns)
    add_reading(made)

    @made.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        made.check(params.text_document.uri)

    @made.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        made.check(params.text_document.uri)

    @made.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        made.close(params.text_document.uri)

    @made.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def formatting(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        document = made.workspace.get_text_document(params.text_document.uri)
        try:
            text = format_source(document.source)
        except (TawaError, OSError):
            return []
        end = lsp.Position(len(document.lines) + 1, 0)
        return [lsp.TextEdit(lsp.Range(lsp.Position(0, 0), end), text)]

    del opened, changed, closed, formatting
    return made
