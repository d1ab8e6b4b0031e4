"""Links Tawa's own words to the glossary, where a page uses them first."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

import markdown_text

PAGE = Path(__file__).parents[2] / "docs" / "glossary.md"

ABOUT = {
    "Tawa's own": ("",),
    "Of its sources": ("architecture.md", "contributing.md"),
    "Of tasks and mappings": ("tasks.md",),
    "Of Axon": ("axon.md",),
    "Of CuPPL": ("cuppl.md",),
}
"""The tables of the page, and how the addresses end of the pages that speak of their words."""

OTHERS = ("axon", "cuppl", "functional", "glossary", "source/")
"""Pages that are about something else, in which the first table's words mean what they mean
everywhere."""

EVERYDAY = {
    "level": "errors examples performance tasks",
    "stage": "fused performance-log reference/options report timing tutorials/attention",
    "put": "command-line contributing errors getting-started language performance-log "
           "protocols tutorials/from-triton tutorials/fused-kernel tutorials/gemm",
    "get": "contributing errors language launching matmul performance-log protocols "
           "reference/api reference/options simulator timeline timing tour triton "
           "tutorials/index",
    "box": "errors examples reference/api reference/language tasks",
    "strip": "examples tasks",
    "deal": "errors",
    "view": "architecture attention conv matmul reference/api report simulator "
            "tables/gemm-families",
    "window": "attention compiler contributing examples performance protocols reference/api "
              "tables/attention-options tables/same-source tutorials/attention",
    "question": "architecture protocols",
    "decision": "performance-log protocols",
}  # fmt: skip
"""Pages that use a word in its everyday sense alone, without `.md`. A page that uses it in both
links it by hand, where it means what the glossary says."""


@cache
def words() -> dict[str, str]:
    """The words of the tables that are about Tawa, and the table of each."""
    found: dict[str, str] = {}
    for section in re.split(r"^## ", PAGE.read_text(), flags=re.M)[1:]:
        title = section.partition("\n")[0]
        if title in ABOUT:
            for cell in re.findall(r"^\| (\*[^|]+) \|", section, re.M):
                found |= dict.fromkeys(re.findall(r"\*([\w -]+)\*", cell), title)
    return found


def anchor(word: str) -> str:
    """Its place on the page."""
    return word.replace(" ", "-")


def with_anchors(markdown: str) -> str:
    """The glossary with a place for each of these words, to be linked to."""
    for word in words():
        markdown = re.sub(
            rf"(?<=[|,] )\*{word}\*(?=[,\w |])", f"*{word}*{{ #{anchor(word)} }}", markdown, count=1
        )
    return markdown


def applies(word: str, uri: str) -> bool:
    """Whether a page may mean by a word what the glossary says."""
    table = words()[word]
    if uri.removesuffix(".md") in EVERYDAY.get(word, "").split() or uri == "glossary.md":
        return False
    if table == "Tawa's own":
        return not any(part in uri for part in OTHERS)
    return uri.endswith(ABOUT[table]) and "reference/" not in uri


def pattern(word: str) -> re.Pattern[str]:
    """A word in a sentence, also in the plural: no part of another word, a path or code."""
    ending = "(?:ves|f)" if word == "leaf" else "s?"
    stem = word.removesuffix("f") if word == "leaf" else word
    stem = re.escape(stem).replace(r"\ ", r"\s")
    return re.compile(rf"(?<![\w`/.\[\\|-]){stem}{ending}(?![\w`\]/.-]*[\]`(])\b(?![\\|=])", re.I)


def linked(markdown: str, uri: str) -> str:
    """The page with each word linked at its first use in a sentence."""
    place = os.path.relpath("glossary.md", Path(uri).parent)
    for word in words():
        target = f"{place}#{anchor(word)}"
        if applies(word, uri) and f"]({target})" not in markdown:
            markdown = _first(markdown, pattern(word), target)
    return markdown


def _first(markdown: str, word: re.Pattern[str], place: str) -> str:
    done = False

    def change(text: str) -> str:
        nonlocal done
        lines = text.split("\n")
        for index, line in enumerate(lines):
            if done or line.startswith(("#", "<")) or _indented(lines, index):
                continue
            for match in word.finditer(line):
                if not _inside(line, match.start()):
                    found = f"[{match[0]}]({place})"
                    lines[index] = line[: match.start()] + found + line[match.end() :]
                    done = True
                    break
        return "\n".join(lines)

    return markdown_text.outside_code(markdown, change)


def _indented(lines: list[str], index: int) -> bool:
    """Whether a line is code because it begins with spaces, rather than a part of a list."""
    if not lines[index].startswith("    "):
        return False
    before = next((line for line in reversed(lines[:index]) if line[:4].strip()), "")
    return not re.match(r" {0,3}([-*]|\d+\.) | {1,3}\S", before)


def _inside(line: str, at: int) -> bool:
    """Whether a place of a line is in a link's text or target, in inline code, or in a tag."""
    taken = [match.span() for match in markdown_text.INLINE.finditer(line)]
    taken += [match.span() for match in re.finditer(r"!?\[[^\]]*\]\([^)]*\)|<[^>]*>", line)]
    return any(begin <= at < end for begin, end in taken)
