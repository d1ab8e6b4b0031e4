"""Links Tawa's own words to the glossary, where a page uses them first."""

from __future__ import annotations

import os
import re
from pathlib import Path

import markdown_text

PAGE = Path(__file__).parents[2] / "docs" / "glossary.md"
OTHERS = ("axon", "cuppl", "functional", "glossary", "source/")
"""Pages that are about something else, in which these words mean what they mean everywhere."""


EVERYDAY = {"put", "get", "view", "window", "question", "attempt", "candidate", "decision", "deal"}
"""Words that a page uses in their everyday sense, too: their pages link them by hand."""


def words() -> list[str]:
    """The words of the first table that stand for nothing else."""
    table = PAGE.read_text().partition("## The field's words")[0]
    cells = re.findall(r"^\| (\*[^|]+) \|", table, re.M)
    return [w for cell in cells for w in re.findall(r"\*([\w-]+)\*", cell) if w not in EVERYDAY]


def with_anchors(markdown: str) -> str:
    """The glossary with a place for each word of its first table, to be linked to."""
    table, rule, rest = markdown.partition("## The field's words")
    return re.sub(r"(?<=[|,] )\*([\w-]+)\*", r"*\1*{ #\1 }", table) + rule + rest


def applies(uri: str) -> bool:
    """Whether a page speaks of tile kernels."""
    return not any(part in uri for part in OTHERS)


def linked(markdown: str, uri: str) -> str:
    """The page with each word linked at its first use in a sentence."""
    place = os.path.relpath("glossary.md", Path(uri).parent)
    for word in words():
        markdown = _first(markdown, word, f"{place}#{word}")
    return markdown


def _first(markdown: str, word: str, place: str) -> str:
    pattern = re.compile(rf"(?<![\w`/.\[\\|-]){word}s?(?![\w`\]/.-]*[\]`(])\b(?![\\|])", re.I)
    done = False

    def change(text: str) -> str:
        nonlocal done
        lines = text.split("\n")
        for index, line in enumerate(lines):
            if done or line.startswith(("#", "    ", "<")):
                continue
            for match in pattern.finditer(line):
                if not _inside(line, match.start()):
                    found = f"[{match[0]}]({place})"
                    lines[index] = line[: match.start()] + found + line[match.end() :]
                    done = True
                    break
        return "\n".join(lines)

    return markdown_text.outside_code(markdown, change)


def _inside(line: str, at: int) -> bool:
    """Whether a place of a line is in a link's text or target, in inline code, or in a tag."""
    taken = [match.span() for match in markdown_text.INLINE.finditer(line)]
    taken += [match.span() for match in re.finditer(r"!?\[[^\]]*\]\([^)]*\)|<[^>]*>", line)]
    return any(begin <= at < end for begin, end in taken)
