"""The language server, driven by a real client over standard input and output."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from tawa.axon.tools.check import checked_parts
from tawa.axon.tools.navigation import completions, renamed

SOURCE = Path(__file__).parents[2] / "src"
PROGRAM = """\
## A layer.
def layer w b x = relu (linear w b x)

def two (w1, b1) (w2, b2) x =
  let hidden = layer w1 b1 x in
  layer w2 b2 hidden
"""
BROKEN = "def f (x: f32[b, 3]) (w: f32[4, 5]) = x @ w\n"
SEVERAL = """\
def good x = relu x
def one (x: f32[b, 3]) (w: f32[4, 5]) = x @ w
def user x w = one x w
def two x = x +
def three x = nothing x
"""
URI = "file:///program.ax"
WHOLE = lsp.Range(lsp.Position(0, 0), lsp.Position(99, 0))


Published = "asyncio.Queue[lsp.PublishDiagnosticsParams]"


async def names(client: LanguageClient, document: lsp.TextDocumentIdentifier) -> dict[str, object]:
    """Ask what concerns names."""
    seen: dict[str, object] = {}
    here = lsp.Position(4, 17)
    seen["completions"] = await client.text_document_completion_async(
        lsp.CompletionParams(document, lsp.Position(5, 2))
    )
    seen["definition"] = await client.text_document_definition_async(
        lsp.DefinitionParams(document, here)
    )
    seen["references"] = await client.text_document_references_async(
        lsp.ReferenceParams(lsp.ReferenceContext(True), document, here)
    )
    for key, name in (("renamed", "dense"), ("taken", "two"), ("no name", "in")):
        seen[key] = await client.text_document_rename_async(lsp.RenameParams(document, here, name))
    seen["symbols"] = await client.text_document_document_symbol_async(
        lsp.DocumentSymbolParams(document)
    )
    return seen


UNDONE = "def first x = relu x\n\ndef second x = first x\ndef third x = secon\n"


async def edits(client: LanguageClient, published: Published) -> dict[str, object]:
    """Texts that change, that are wide, wrong, closed or unknown, and messages that are none."""
    seen: dict[str, object] = {}
    document = lsp.TextDocumentIdentifier("file:///edited.ax")
    item = lsp.TextDocumentItem(document.uri, "axon", 1, "def f x = x\n")
    client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
    await published.get()
    for version, text in enumerate(("def f x = x + \U0001d6fc\n", UNDONE), 2):
        change = lsp.TextDocumentContentChangeWholeDocument(text)
        versioned = lsp.VersionedTextDocumentIdentifier(uri=document.uri, version=version)
        client.text_document_did_change(lsp.DidChangeTextDocumentParams(versioned, [change]))
        seen[f"text {version}"] = (await published.get()).diagnostics
    at = lsp.Position(2, 16)
    seen["completed"] = await client.text_document_completion_async(
        lsp.CompletionParams(document, lsp.Position(3, 18))
    )
    seen["unsafe"] = await client.text_document_rename_async(lsp.RenameParams(document, at, "y"))
    seen["still"] = await client.text_document_references_async(
        lsp.ReferenceParams(lsp.ReferenceContext(True), document, at)
    )
    client.text_document_did_close(lsp.DidCloseTextDocumentParams(document))
    seen["closed"] = (await published.get()).diagnostics
    for far in (document, lsp.TextDocumentIdentifier("file:///nowhere.ax")):
        seen[f"gone {far.uri}"] = await client.text_document_hover_async(
            lsp.HoverParams(far, lsp.Position(10**6, 10**6))
        )
    return seen


async def session() -> dict[str, object]:
    """Open a document, ask all that a server can be asked, break it, and repair it."""
    client = LanguageClient("test", "1")
    published: asyncio.Queue[lsp.PublishDiagnosticsParams] = asyncio.Queue()

    @client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def diagnostics(params: lsp.PublishDiagnosticsParams) -> None:
        published.put_nowait(params)

    code = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); from tawa.cli import main; main()"
    await client.start_io(sys.executable, "-c", code, "axon", "lsp")
    await client.initialize_async(lsp.InitializeParams(capabilities=lsp.ClientCapabilities()))
    client.initialized(lsp.InitializedParams())
    item = lsp.TextDocumentItem(URI, "axon", 1, PROGRAM)
    client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
    document = lsp.TextDocumentIdentifier(URI)
    seen: dict[str, object] = {"opened": (await published.get()).diagnostics}
    at = {"use": lsp.Position(4, 16), "name": lsp.Position(4, 8), "nothing": lsp.Position(2, 0)}
    for key, position in at.items():
        seen[key] = await client.text_document_hover_async(lsp.HoverParams(document, position))
    seen["hints"] = await client.text_document_inlay_hint_async(
        lsp.InlayHintParams(document, WHOLE)
    )
    seen.update(await names(client, document))
    seen.update(await edits(client, published))
    change = lsp.TextDocumentContentChangeWholeDocument(SEVERAL)
    versioned = lsp.VersionedTextDocumentIdentifier(uri=URI, version=2)
    client.text_document_did_change(lsp.DidChangeTextDocumentParams(versioned, [change]))
    seen["several"] = (await published.get()).diagnostics
    seen["beside"] = await client.text_document_hover_async(
        lsp.HoverParams(document, lsp.Position(0, 4))
    )
    change = lsp.TextDocumentContentChangeWholeDocument(BROKEN)
    versioned = lsp.VersionedTextDocumentIdentifier(uri=URI, version=2)
    client.text_document_did_change(lsp.DidChangeTextDocumentParams(versioned, [change]))
    seen["broken"] = (await published.get()).diagnostics
    change = lsp.TextDocumentContentChangeWholeDocument("def   f x=x+1.0")
    versioned = lsp.VersionedTextDocumentIdentifier(uri=URI, version=3)
    client.text_document_did_change(lsp.DidChangeTextDocumentParams(versioned, [change]))
    seen["repaired"] = (await published.get()).diagnostics
    options = lsp.FormattingOptions(tab_size=2, insert_spaces=True)
    seen["formatted"] = await client.text_document_formatting_async(
        lsp.DocumentFormattingParams(document, options)
    )
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()
    return seen


@pytest.fixture(scope="module")
def seen() -> dict[str, object]:
    # In a thread of its own: a browser's tests in this process may have left an event loop running.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(asyncio.wait_for(session(), 60))).result()


def test_server_answers_a_client(seen: dict[str, object]):
    assert not seen["opened"]
    use, name = seen["use"], seen["name"]
    assert isinstance(use, lsp.Hover)
    assert isinstance(use.contents, lsp.MarkupContent)
    assert "layer : t[k, n] -> t[n] -> t[..s, k] -> t[..s, n]" in use.contents.value
    assert "A layer." in use.contents.value
    assert isinstance(name, lsp.Hover)
    assert isinstance(name.contents, lsp.MarkupContent)
    assert "hidden : t[..s, n]" in name.contents.value
    assert seen["nothing"] is None


def test_hints_show_inferred_types_and_errors_their_places(seen: dict[str, object]):
    hints = seen["hints"]
    assert isinstance(hints, Sequence)
    shown = {(hint.position.line, hint.position.character): hint.label for hint in hints}
    assert shown[1, 11] == ": t[k, n]"
    assert shown[4, 12] == ": t[..s, n]"
    broken = seen["broken"]
    assert isinstance(broken, Sequence)
    assert broken[0].code == "ShapeMismatch"
    assert broken[0].range.start == lsp.Position(0, 42)
    assert "3 is not 4" in broken[0].message
    places = [information.location.range.start for information in broken[0].related_information]
    assert lsp.Position(0, 38) in places
    assert not seen["repaired"]
    edits = seen["formatted"]
    assert isinstance(edits, Sequence)
    assert edits[0].new_text == "def f x = x + 1.0\n"


def places(found: object) -> list[tuple[int, int]]:
    assert isinstance(found, Sequence)
    return [(item.range.start.line, item.range.start.character) for item in found]


def test_names_are_completed_found_and_renamed(seen: dict[str, object]):
    completions = seen["completions"]
    assert isinstance(completions, Sequence)
    shown = {item.label: item.detail for item in completions}
    assert shown["hidden"] == "t[..s, n]"
    assert shown["layer"] == "t[k, n] -> t[n] -> t[..s, k] -> t[..s, n] where float t"
    assert shown["softmax"] is not None
    assert "let" in shown
    assert "b" not in shown  # a parameter of another definition
    where = seen["definition"]
    assert isinstance(where, lsp.Location)
    assert where.range.start == lsp.Position(1, 4)
    assert sorted(places(seen["references"])) == [(1, 4), (4, 15), (5, 2)]
    edit = seen["renamed"]
    assert isinstance(edit, lsp.WorkspaceEdit)
    assert edit.changes is not None
    assert sorted(places(edit.changes[URI])) == [(1, 4), (4, 15), (5, 2)]
    assert seen["taken"] is None
    assert seen["no name"] is None
    symbols = seen["symbols"]
    assert isinstance(symbols, Sequence)
    assert [symbol.name for symbol in symbols] == ["layer", "two"]


def test_what_a_line_without_a_definition_leaves_is_checked():
    module, errors = checked_parts("def a x = x\nfoo bar\n\ndef b x = a x\ndef c x = x\n", "/p.ax")
    assert [error.message for error in errors] == ["nothing is called `foo`"]
    assert module is not None
    assert [made.name for made in module.syntax.definitions()] == ["c"]


def test_names_of_cases_are_completed_and_built_in_names_are_not_taken():
    text = "## Of pairs.\ndef f t = match t with (0, _) -> 1 | (_, inner) -> inner end\n"
    module, errors = checked_parts(text, "/p.ax")
    assert not errors, [error.message for error in errors]
    assert module is not None
    shown = {
        item.label
        for item in completions(module, lsp.Position(1, text.splitlines()[1].rindex("inner")))
    }
    assert "inner" in shown
    at = lsp.Position(1, 4)
    assert renamed(module, URI, at, "relu") is None
    assert renamed(module, URI, at, "g") is not None


def test_each_definition_has_its_own_mistake(seen: dict[str, object]):
    several = seen["several"]
    assert isinstance(several, Sequence)
    lines = sorted(error.range.start.line for error in several)
    assert lines == [1, 3, 4], [error.message for error in several]
    beside = seen["beside"]
    assert isinstance(beside, lsp.Hover)
    assert isinstance(beside.contents, lsp.MarkupContent)
    assert "good : t[..s] -> t[..s]" in beside.contents.value


def test_texts_are_asked_as_they_are_now(seen: dict[str, object]):
    wide, incomplete, completed = (seen[name] for name in ("text 2", "text 3", "completed"))
    assert isinstance(wide, Sequence)
    assert wide[0].range == lsp.Range(lsp.Position(0, 14), lsp.Position(0, 16))  # in UTF-16
    assert isinstance(incomplete, Sequence)
    assert [error.range.start.line for error in incomplete] == [3]
    assert isinstance(completed, Sequence)
    assert {"f", "first", "second"} <= {item.label for item in completed}
    assert seen["unsafe"] is None  # `third` could not be checked: names in it would be left out
    assert sorted(places(seen["still"])) == [(0, 4), (2, 15)]
    assert not seen["closed"]
    assert seen["gone file:///edited.ax"] is None
    assert seen["gone file:///nowhere.ax"] is None
