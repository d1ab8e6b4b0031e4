"""What MkDocs does not do by itself, as its hooks (mkdocs.yml): the pages stay plain Markdown.

Generated parts come in where a page asks for them (`<!-- reference: NAME -->`); links to files
outside of `docs/` lead to pages that show those files; Tawa's own words are linked to the
glossary; plots follow the colours that a reader chose; notebooks become pages.
"""

from __future__ import annotations

import re
import sys
from html import unescape
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[2] / "src"))
import glossary
import markdown_text
import notebook_pages
import reference
import sources

ROOT = Path(__file__).parents[2]
PLACE = re.compile(r"<!-- reference: ([\w-]+) -->")
NAMED = re.compile(r"^```(\w+) ([\w.-]+)$", re.M)
"""A block that is written to a file, as `tests/meta/test_documents.py` reads it."""

CELL = re.compile(r"<(t[dh])\b.*?</\1>", re.S)
NAME = re.compile(r"(?P<start><(?P<tag>code|a)\b[^>]*>)(?P<text>[^<]*)(?P<end></(?P=tag)>)")
PARTS = re.compile(r"[._/=(,|]+(?=\w)")
FIGURE = re.compile(r"(?<=>)([\d.]+) (s|ms|us|kB|MB|GB)(?=<)")
"""A cell of a table, a name in it, where a name may be broken, and a figure with its unit."""

PICTURE = re.compile(
    r'<picture><source [^>]*srcset="(?P<dark>[^"]+)"><img alt="(?P<alt>[^"]*)" '
    r'src="(?P<light>[^"]+)"></picture>'
)


def on_files(files: Files, config: Any) -> Files:
    """Add a page for each file that the documents link to, and one for each notebook."""
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        files.remove(files.src_uris[f"notebooks/{path.name}"])
        content = notebook_pages.page(path)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=content))
    texts = [file.content_string for file in files if file.src_uri.endswith(".md")]
    for uri, content in sources.pages(texts, ROOT).items():
        file = File.generated(config, uri, content=content)
        file.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(file)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """The text of a page as MkDocs is to see it."""
    del config, files
    uri = page.file.src_uri
    if uri.startswith(sources.FOLDER):
        return markdown
    markdown = PLACE.sub(lambda match: reference.PARTS[match[1]](), markdown)
    markdown = NAMED.sub(r'```\1 title="\2"', markdown)
    markdown = PICTURE.sub(in_both_colours, markdown)
    markdown = markdown_text.outside_code(markdown, lambda text: sources.led(text, uri, ROOT))
    if uri.startswith("notebooks/"):
        markdown = markdown.replace(".ipynb)", ".md)")
    if uri == "glossary.md":
        return glossary.with_anchors(markdown)
    return glossary.linked(markdown, uri)


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """A page whose tables can be narrow: names break between their parts, figures keep units."""
    del page, config, files
    return CELL.sub(lambda cell: FIGURE.sub(r"\1&nbsp;\2", NAME.sub(breakable, cell[0])), html)


def breakable(name: re.Match[str]) -> str:
    """A name that may go on in a new line behind its dots, slashes and underscores."""
    return name["start"] + PARTS.sub(r"\g<0><wbr>", name["text"]) + name["end"]


def in_both_colours(match: re.Match[str]) -> str:
    """A plot of which the site shows the one that fits the colours."""
    alt = unescape(match["alt"]).replace("[", "(").replace("]", ")")
    return f"![{alt}]({match['light']}#only-light)![{alt}]({match['dark']}#only-dark)"
