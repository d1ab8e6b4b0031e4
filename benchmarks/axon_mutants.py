"""Planted mistakes in annotated Axon models: how many are refused when the file is loaded.

    python benchmarks/axon_mutants.py examples/axon/annotated.ax --count 75 --seed 1

Each mutant differs from its model in one place of a body: two operands or arguments swapped, an
axis moved, a transpose or rearrangement dropped, a number off by one, a split at another place.
It is caught if loading refuses it; the place that the error names first should be within two lines.
"""

from __future__ import annotations

import argparse
import collections
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tawa import axon
from tawa.base.errors import TawaError

NEAR = 2
"""Lines between a mistake and the place named first that count as near."""

SPLITS = {"halves": 2, "thirds": 3, "quarters": 4}


@dataclass(frozen=True)
class Mutant:
    """A text with a mistake: what kind, where, and what it was and became."""

    kind: str
    text: str
    line: int
    was: str
    became: str


@dataclass(frozen=True)
class Outcome:
    """What loading a mutant gave: the error's place and lines; no error if it was accepted."""

    mutant: Mutant
    line: int | None
    lines: int

    @property
    def caught(self) -> bool:
        """Whether loading refused it."""
        return self.line is not None

    @property
    def near(self) -> bool:
        """Whether the place named first is near the mistake."""
        return self.line is not None and abs(self.line - self.mutant.line) <= NEAR


ATOM = r"(?:[\w.]+(?:\{[^}]*\})?|\((?:[^()]|\([^()]*\))*\))"
"""A name, with static arguments perhaps, or a parenthesis."""


def swapped_operands(body: str) -> Iterator[tuple[int, int, str]]:
    """`a @ b` as `b @ a`, `matmul a b` as `matmul b a`."""
    for found in re.finditer(rf"({ATOM}) @ ({ATOM})(?! *[\w(])", body):
        yield found.start(), found.end(), f"{found[2]} @ {found[1]}"
    for found in re.finditer(rf"\b(matmul|take|linear) ({ATOM}) ({ATOM})", body):
        yield found.start(), found.end(), f"{found[1]} {found[3]} {found[2]}"


def wrong_axis(body: str) -> Iterator[tuple[int, int, str]]:
    """Another axis of a reduction, of a join or of a new axis."""
    named = r"(sum|mean|max|argmax|concat|expand|squeeze|slice)(\{(?:[^}]*, )?axis = )(-?\d)"
    for found in re.finditer(named, body):
        moved = int(found[3]) + (1 if found[3] in ("0", "-1", "-2") else -1)
        moved = -2 if found[3] == "-1" else moved
        yield found.start(3), found.end(3), str(moved)


def dropped_transpose(body: str) -> Iterator[tuple[int, int, str]]:
    """`transpose x` as `x`, `rearrange{...} x` as `x`."""
    for found in re.finditer(r"\btranspose (?=[\w(])|\brearrange\{[^}]*\} (?=[\w(])", body):
        yield found.start(), found.end(), ""


def off_by_one(body: str) -> Iterator[tuple[int, int, str]]:
    """A number or size of a static argument, one more."""
    inside = re.compile(r"(slice|reshape|one_hot|iota|broadcast)\{([^}]*)\}")
    for found in inside.finditer(body):
        for item in re.finditer(r"(?<![\w*])(\d+|[a-z]\w*)(?= - 1|, |\]|$)(?! =)", found[2]):
            if item[0] == "axis":
                continue
            at = found.start(2) + item.start()
            yield at, at + len(item[0]), f"{item[0]} + 1"
    for found in re.finditer(r"\{stride = (\d)\}", body):
        yield found.start(1), found.end(1), str(int(found[1]) + 1)


def wrong_split(body: str) -> Iterator[tuple[int, int, str]]:
    """Axes split or joined in the other order, or into another number of parts."""
    for found in re.finditer(r"\((\w+) (\w+)\)(?=[^{]*->|[^{}]*\")", body):
        yield found.start(), found.end(), f"({found[2]} {found[1]})"
    for found in re.finditer(r"\b(halves|thirds|quarters)\b", body):
        others = [name for name in SPLITS if name != found[1]]
        yield found.start(), found.end(), others[found.start() % 2]


OPERATORS: dict[str, Callable[[str], Iterator[tuple[int, int, str]]]] = {
    "swapped operands": swapped_operands, "wrong axis": wrong_axis,
    "dropped transpose": dropped_transpose, "off by one": off_by_one, "wrong split": wrong_split,
}  # fmt: skip


def mutants(text: str) -> list[Mutant]:
    """All mutants of a file: of its definitions' bodies, not of comments or annotations."""
    found: list[Mutant] = []
    for kind, operator in OPERATORS.items():
        for start, end, became in operator(text):
            line = text.count("\n", 0, start) + 1
            row = text.splitlines()[line - 1]
            was = text[start:end]
            column = start - text.rfind("\n", 0, start) - 1
            head = row[:column]
            in_annotation = re.search(r" : [^=]*$", head) and "{" not in head.rpartition(" : ")[2]
            if row.startswith(("#", "def")) or in_annotation or was == became:
                continue
            changed = text[:start] + became + text[end:]
            found.append(Mutant(kind, changed, line, was, became))
    return found


def drawn(of: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """So many of them, as many of each kind as there are."""
    draw = random.Random(seed)
    kinds = {kind: [m for m in of if m.kind == kind] for kind in OPERATORS}
    for group in kinds.values():
        draw.shuffle(group)
    chosen: list[Mutant] = []
    while len(chosen) < count and any(kinds.values()):
        for group in kinds.values():
            if group and len(chosen) < count:
                chosen.append(group.pop())
    return chosen


def tried(mutant: Mutant) -> Outcome:
    """Load a mutant."""
    try:
        axon.load(mutant.text)
    except TawaError as error:
        line = error.span.line if error.span is not None else 0
        return Outcome(mutant, line, len(str(error).splitlines()))
    return Outcome(mutant, None, 0)


def main() -> None:
    """Draw mutants, load them, and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--count", type=int, default=75)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    every = [mutant for path in arguments.files for mutant in mutants(path.read_text())]
    outcomes = [tried(mutant) for mutant in drawn(every, arguments.count, arguments.seed)]
    caught = [outcome for outcome in outcomes if outcome.caught]
    near = sum(outcome.near for outcome in caught)
    longest = max((outcome.lines for outcome in caught), default=0)
    print(f"{len(every)} mutants, {len(outcomes)} drawn: {len(caught)} caught, {near} named near")
    print("by kind:", dict(collections.Counter(o.mutant.kind for o in outcomes if not o.caught)))
    print(f"the longest error has {longest} lines")
    for outcome in outcomes:
        if not outcome.near:
            of = outcome.mutant
            where = f"named at line {outcome.line}" if outcome.caught else "ACCEPTED"
            print(f"  {of.kind}, line {of.line}: {of.was!r} as {of.became!r}: {where}")


if __name__ == "__main__":
    main()
