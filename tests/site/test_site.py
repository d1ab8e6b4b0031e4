"""The website: all that should be on it is, and every link leads somewhere."""

import html
import os
import re
import sys
from dataclasses import fields
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

import tawa
from tawa import axon, cuppl, tasks
from tawa.base.options import Options
from tawa.cuppl.distributions import DISTRIBUTIONS

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "scripts" / "site"))
import glossary  # noqa: E402
import hooks  # noqa: E402
import markdown_text  # noqa: E402
import sources  # noqa: E402

LINK = re.compile(r"""<\w+\s[^<>]*?\b(?:href|src)="?([^"\s>]+)""")


@cache
def page(path: Path) -> str:
    return path.read_text()


@cache
def anchors(path: Path) -> set[str]:
    return {html.unescape(name) for name in re.findall(r'\bid="?([^"\s>]+)', page(path))}


def test_every_link_of_the_built_pages_leads_somewhere(site: Path):
    broken: set[str] = set()
    for path in site.rglob("*.html"):
        if path.name == "404.html":  # its links are absolute, for where the site will be
            continue
        for target in set(LINK.findall(page(path))):
            place, _, anchor = html.unescape(target).partition("#")
            if place.startswith(("http", "mailto:", "data:")):
                continue
            file = Path(os.path.normpath(path.parent / place)) if place else path
            if not file.exists():
                broken.add(f"{path.relative_to(site)}: {target}")
            elif anchor and file.suffix == ".html" and not target.startswith("#__"):
                if anchor not in anchors(file):
                    broken.add(f"{path.relative_to(site)}: {target}")
    assert broken == set()


def test_nothing_is_fetched_from_elsewhere(site: Path):
    found = set()
    for path in site.rglob("*.html"):
        found |= set(
            re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="?(http[^"\s>]+)', page(path))
        )
    assert found == set()


def test_every_launch_option_is_explained(site: Path):
    text = page(site / "reference" / "options.html")
    assert [f.name for f in fields(Options) if f'id="{f.name}"' not in text] == []


def test_every_function_of_the_language_is_listed(site: Path):
    import tawa.language as tl
    from tawa.language.builtin import LanguageFunction

    listed = page(site / "reference" / "language.html")
    names = {value.name for value in vars(tl).values() if isinstance(value, LanguageFunction)}
    assert sorted(name for name in names if f'id="tl{name.lower()}"' not in listed) == []


@pytest.mark.parametrize("module", [tawa, axon, cuppl, tasks], ids=lambda module: module.__name__)
def test_every_public_name_is_listed(site: Path, module: object):
    listed = page(site / "reference" / "api.html")
    names = module.__all__  # type: ignore[attr-defined]
    assert [name for name in names if f"<code>{name}</code>" not in listed] == []


def test_every_command_is_listed(site: Path):
    from importlib import import_module

    from tawa.cli.app import LANGUAGES, command_line

    listed = page(site / "reference" / "command-line.html")
    for start, app in {
        "tawa": command_line([]),
        **{f"tawa {name}": import_module(home).app for name, (home, _) in LANGUAGES.items()},
    }.items():
        for command in app.registered_commands:
            name = command.name or command.callback.__name__
            assert f"<code>{start} {name}</code>" in listed


def test_distributions_are_listed(site: Path):
    listed = page(site / "reference" / "cuppl.html").replace("<wbr>", "")
    assert [d.stem for d in DISTRIBUTIONS.values() if f"<code>{d.stem}</code>" not in listed] == []


def test_words_are_linked_to_the_glossary_at_first_use():
    text = "# A ring\n\nThe `ring` [ring](x.md) of a ring, and a ring.\n"
    linked = glossary.linked(text, "tutorials/gemm.md")
    assert linked == (
        "# A ring\n\nThe `ring` [ring](x.md) of a [ring](../glossary.md#ring), and a ring.\n"
    )
    in_a_table = "| a | tile\\|aref |\n|---|---|\n| x | `slot`, a slot |\n"
    assert glossary.linked(in_a_table, "ir.md") == in_a_table.replace(
        "a slot", "a [slot](glossary.md#slot)"
    )
    in_a_list = "1. First\n   - and\n     a role\n\ntext\n\n    a role in code\n"
    assert glossary.linked(in_a_list, "ir.md") == in_a_list.replace(
        "     a role", "     a [role](glossary.md#role)"
    )
    assert {"aref", "ring", "slot", "role", "team", "cursor"} <= set(glossary.words())


def test_a_word_that_is_linked_by_hand_is_left_alone():
    text = "It puts a number there. A role [puts](glossary.md#put) a tile.\n"
    assert glossary.linked(text, "ir.md") == text.replace("role", "[role](glossary.md#role)")
    everyday = "It puts a number there.\n"
    assert glossary.linked(everyday, "language.md") == everyday
    assert glossary.linked(everyday, "ir.md") != everyday


class Prose(HTMLParser):
    """What a page says in sentences: pieces of text, each with the link that it is in."""

    LEFT_OUT = ("code", "pre", "script", "style", "svg", "nav", "button",
                "h1", "h2", "h3", "h4", "h5", "h6")  # fmt: skip

    def __init__(self, text: str) -> None:
        super().__init__()
        self.pieces: list[tuple[str, str]] = []
        self.link, self.article, self.depth = "", False, 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.article |= tag == "article"
        self.depth += tag in self.LEFT_OUT
        if tag == "a":
            self.link = dict(attrs).get("href") or ""

    def handle_endtag(self, tag: str) -> None:
        self.article &= tag != "article"
        self.depth -= tag in self.LEFT_OUT
        if tag == "a":
            self.link = ""

    def handle_data(self, data: str) -> None:
        a_path = "/" in data and " " not in data
        if self.article and not self.depth and not a_path:
            self.pieces.append((data, self.link))

    def first(self, word: str) -> str | None:
        """The link of a word's first use; none if the page does not use it."""
        pattern = glossary.pattern(word)
        return next((link for text, link in self.pieces if pattern.search(text)), None)

    def links(self, word: str) -> bool:
        """Whether the page links the word anywhere."""
        return any(
            link.endswith(f"glossary.html#{glossary.anchor(word)}") for _, link in self.pieces
        )


def by_hand(uri: str, word: str) -> bool:
    """Whether a page's source links a word itself, after it was used in another sense."""
    source = ROOT / "docs" / uri
    return source.exists() and f"glossary.md#{glossary.anchor(word)})" in source.read_text()


def unlinked(prose: Prose, uri: str) -> list[str]:
    """The words whose first use on a page is no link to the glossary."""
    wrong: list[str] = []
    for word in glossary.words():
        link = prose.first(word)
        if link is None or not glossary.applies(word, uri):
            continue
        right = link.endswith(f"glossary.html#{glossary.anchor(word)}")
        if not (right or (prose.links(word) and by_hand(uri, word))):
            wrong.append(word)
    return wrong


def test_every_word_of_tawas_own_leads_to_the_glossary_where_a_page_uses_it_first(site: Path):
    uris = {
        path: path.relative_to(site).with_suffix(".md").as_posix() for path in site.rglob("*.html")
    }
    pages = {uri: Prose(page(path)) for path, uri in uris.items()
             if not uri.startswith("source/") and uri not in ("404.md", "glossary.md")}  # fmt: skip
    wrong = {uri: words for uri, prose in pages.items() if (words := unlinked(prose, uri))}
    assert wrong == {}
    stale = [
        (word, uri)
        for word, listed in glossary.EVERYDAY.items()
        for uri in listed.split()
        if pages[f"{uri}.md"].first(word) is None or by_hand(f"{uri}.md", word)
    ]
    assert stale == [], "no exception is needed"


def test_a_word_without_its_link_is_found():
    link = '<a href="glossary.html#role">roles</a>'
    right = Prose(f"<article><h1>A role</h1><p><code>role</code> {link} and a role</p></article>")
    assert unlinked(right, "tour.md") == []
    late = Prose(f"<article><p>A role, and {link}</p></article>")
    assert unlinked(late, "tour.md") == ["role"]


def test_names_in_tables_break_between_their_parts_and_figures_keep_their_units():
    cells = "<td><code>tile.arange</code></td><td>1.5 s</td><td>a_b <a href='x_y'>x/y_z</a></td>"
    assert hooks.on_page_content(f"<code>a.b</code>{cells}", None, None, None) == (
        "<code>a.b</code><td><code>tile.<wbr>arange</code></td><td>1.5&nbsp;s</td>"
        "<td>a_b <a href='x_y'>x/<wbr>y_<wbr>z</a></td>"
    )


def test_code_is_left_alone():
    text = "a ring\n```\na ring\n```\n"
    assert markdown_text.outside_code(text, str.upper) == "A RING\n```\na ring\n```\n"


def test_links_out_of_the_documents_lead_to_pages_of_sources():
    text = "[a](../examples/gemm.py), [b](glossary.md), [c](../src/tawa/aref)"
    assert sources.led(text, "tour.md", ROOT) == (
        "[a](source/examples/gemm.py.md), [b](glossary.md), [c](source/src/tawa/aref/folder.md)"
    )
