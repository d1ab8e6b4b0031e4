"""Places as editors count them: in units of the encoding that was agreed on, not in characters."""

from __future__ import annotations

from collections.abc import Sequence

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer


class Columns:
    """Converts places of a server's documents, from what its client counts and back."""

    def __init__(self, server: LanguageServer) -> None:
        self.server = server

    def inside(self, uri: str, position: lsp.Position) -> lsp.Position:
        """A client's position in characters; the end of the text for one behind it."""
        lines = self._lines(uri)
        if not 0 <= position.line < len(lines):
            return lsp.Position(len(lines), 0)
        codec = self.server.workspace.position_codec
        found = codec.position_from_client_units(lines, position)
        return lsp.Position(found.line, found.character)

    def outside(self, uri: str, place: lsp.Range) -> lsp.Range:
        """A range in characters as the client counts."""
        return self.server.workspace.position_codec.range_to_client_units(self._lines(uri), place)

    def location(self, found: lsp.Location) -> lsp.Location:
        """A location in any file as the client counts."""
        return lsp.Location(found.uri, self.outside(found.uri, found.range))

    def _lines(self, uri: str) -> Sequence[str]:
        try:
            return self.server.workspace.get_text_document(uri).lines
        except (OSError, UnicodeDecodeError):  # a document that nobody opened, and no file
            return ()
