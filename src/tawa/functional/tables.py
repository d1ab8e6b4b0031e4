"""Parse tables as plain data, and the loop that follows them.

Lark makes the tables, and says what is wrong with a text. A text without mistakes needs neither its
classes nor its combined expressions, whose making takes longer than the parse itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lark import Lark, Token, parse_tree_builder
from lark.lexer import PatternStr
from lark.parsers.lalr_analysis import Shift

__all__ = ["Place", "Tables", "Unexpected", "tables_of"]

Data = dict[str, Any]


class Unexpected(Exception):
    """The text is not in the language; lark can say more."""


@dataclass(slots=True)
class Place:
    """Where something stands: what `lark.tree.Meta` says. Lines and columns are counted from 1."""

    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    empty: bool = False


EMPTY = Place(empty=True)


def tables_of(parser: Lark) -> Data:
    """The tables of a parser made by lark (LALR, contextual lexer), of numbers and texts alone.

    A state maps terminals to actions (a state to go to, or `-1 - n` to reduce rule n) and other
    symbols to states. A rule is its symbol, its length, its tree's name (empty for one that
    is spliced into its parent), whether a single child stands for it, and its children: for each
    its position, whether it is spliced, and how many are missing before it.
    """
    facts: Any = parser
    engine = facts.parser.parser
    numbers: dict[Any, int] = {}
    table: dict[int, Any] = engine._parse_table.states
    states: list[dict[str, int]] = [{} for _ in range(len(table))]
    for state, actions in table.items():
        row = states[state]
        for symbol, (action, argument) in actions.items():
            if action is Shift:
                row[symbol] = argument
            else:
                row[symbol] = -1 - numbers.setdefault(argument, len(numbers))
    terminals = sorted(
        facts.terminals,
        key=lambda t: (-t.priority, -t.pattern.max_width, -len(t.pattern.value), t.name),
    )
    return {
        "states": states,
        "starts": dict(engine._parse_table.start_states),
        "ends": dict(engine._parse_table.end_states),
        "rules": [_rule(rule) for rule in numbers],
        "terminals": [
            (t.name, t.pattern.value if isinstance(t.pattern, PatternStr) else None,
             t.pattern.to_regexp())
            for t in terminals
        ],
        "words": _words(terminals),
        "ignored": list(facts.lexer_conf.ignore),
    }  # fmt: skip


def _rule(rule: Any) -> tuple[Any, ...]:
    options = rule.options
    shaping: Any = parse_tree_builder  # its functions have no types
    made = shaping.maybe_create_child_filter(
        rule.expansion, options.keep_all_tokens, False, options.empty_indices
    )
    children = [(index, False, 0) for index in range(len(rule.expansion))]
    missing = 0
    if made is not None:
        children = [(*item, 0)[:3] for item in made.args[0]]
        missing = made.args[1] if len(made.args) > 1 else 0
    name = str(rule.alias or options.template_source or rule.origin.name)
    single = bool(options.expand1 and not rule.alias)
    spliced = name.startswith("_")
    return (
        str(rule.origin.name), len(rule.expansion), "" if spliced else name, single, children,
        missing,
    )  # fmt: skip


def _words(terminals: list[Any]) -> dict[str, dict[str, str]]:
    """Texts that are terminals of their own though an expression matches them, by its name."""
    found: dict[str, dict[str, str]] = {}
    for pattern in terminals:
        if isinstance(pattern.pattern, PatternStr):
            continue
        expression = re.compile(pattern.pattern.to_regexp())
        for word in terminals:
            text = word.pattern.value
            if (
                isinstance(word.pattern, PatternStr)
                and word.priority == pattern.priority
                and expression.fullmatch(text)
            ):
                found.setdefault(pattern.name, {})[text] = word.name
    return found


Candidate = tuple[str, str, Callable[[str, int], Any] | None]
"""A terminal: its name, its text, or else how it is matched."""


class Tables:
    """Follows the tables for one text after the other."""

    def __init__(self, data: Data, callbacks: dict[str, Callable[[Token], Any]]) -> None:
        self.data = data
        self.callbacks = callbacks
        self.ignored: frozenset[str] = frozenset(data["ignored"])
        self._expressions: dict[str, Any] = {}
        self._names: dict[tuple[int, int, str], int] = {}
        self._accepted: dict[int, tuple[dict[str, list[Candidate]], dict[str, dict[str, str]]]] = {}

    def parse(self, text: str, start: str, builder: Any) -> Any:
        """What `builder` makes of a text: it has a method for each rule, of place and children.

        Raises Unexpected.
        """
        states, rules = self.data["states"], self.data["rules"]
        end = self.data["ends"][start]
        stack: list[int] = [self.data["starts"][start]]
        values: list[Any] = []
        places: list[Place] = []
        lexer = _Lexer(self, text)
        while True:
            token = lexer.next(stack[-1])
            kind = token.type
            if len(stack) > 1:
                stack[-1] = self._renamed(stack[-2], stack[-1], kind)
            while True:
                action = states[stack[-1]].get(kind)
                if action is None:
                    raise Unexpected(kind)
                if action >= 0:
                    break
                rule = rules[-1 - action]
                _reduce(rule, values, places, stack, builder)
                below = stack[-1]
                stack.append(self._renamed(below, states[below][rule[0]], kind))
                if kind == "$END" and stack[-1] == end:
                    return values[-1]
            stack.append(action)
            values.append(token)
            places.append(_place(token))

    def _renamed(self, below: int, state: int, kind: str) -> int:
        """The state after all rules that only give what is on top of the stack another name.

        Most reductions are of this kind: a name is an atom, which is a product, which is a sum.
        """
        known = self._names.get((below, state, kind))
        if known is not None:
            return known
        states, rules = self.data["states"], self.data["rules"]
        last = state
        while (action := states[last].get(kind)) is not None and action < 0:
            symbol, size, _, single, wanted, missing = rules[-1 - action]
            if size != 1 or not single or missing or [*map(tuple, wanted)] != [(0, False, 0)]:
                break
            last = states[below][symbol]
        self._names[below, state, kind] = last
        return last

    def accepted(self, state: int) -> tuple[dict[str, list[Candidate]], dict[str, dict[str, str]]]:
        """Terminals that a state accepts, by first character (as far as is known); words."""
        if state not in self._accepted:
            names = self.data["states"][state].keys() | self.ignored
            words = {
                expression: {text: name for text, name in found.items() if name in names}
                for expression, found in self.data["words"].items()
                if expression in names
            }
            self._accepted[state] = {}, words
        return self._accepted[state]

    def candidates(self, state: int, character: str) -> list[Candidate]:
        """Terminals that a state accepts and that may start with a character, the first first."""
        names = self.data["states"][state].keys() | self.ignored
        words = {name for found in self.accepted(state)[1].values() for name in found.values()}
        found: list[Candidate] = []
        for name, text, expression in self.data["terminals"]:
            if name not in names or name in words:
                continue
            if text is None:
                found.append((name, "", self._expression(expression)))
            elif text[0] == character:
                found.append((name, text, None))
        return found

    def _expression(self, expression: str) -> Callable[[str, int], Any]:
        if expression not in self._expressions:
            self._expressions[expression] = re.compile(expression).match
        return self._expressions[expression]


def _reduce(
    rule: Any, values: list[Any], places: list[Place], stack: list[int], builder: Any
) -> None:
    """Put what a rule makes in the place of what it is made of; its state is left to be pushed."""
    _, size, name, single, wanted, missing = rule
    first = len(values) - size
    given, where = values[first:], places[first:]
    if size:
        del values[first:], places[first:], stack[-size:]
    children: list[Any] = []
    for index, spliced, before in wanted:
        if before:
            children.extend([None] * before)
        if spliced:
            children.extend(given[index])
        else:
            children.append(given[index])
    if missing:
        children.extend([None] * missing)
    if single and len(children) == 1:
        (value,) = children
        place = _place(value) if isinstance(value, Token) else _around(where)
    else:
        place = _around(where)
        value = getattr(builder, name)(place, children) if name else children
    values.append(value)
    places.append(place)


def _place(token: Token) -> Place:
    return Place(token.line or 1, token.column or 1, token.end_line or 1, token.end_column or 1)


def _around(places: list[Place]) -> Place:
    """From the first of some places to the last."""
    if len(places) == 1:
        return places[0]
    inner = [place for place in places if not place.empty]
    if not inner:
        return EMPTY
    first, last = inner[0], inner[-1]
    return Place(first.line, first.column, last.end_line, last.end_column)


class _Lexer:
    """Tokens of a text; a terminal counts only where the parser accepts it."""

    def __init__(self, tables: Tables, text: str) -> None:
        self.tables = tables
        self.text = text
        self.at, self.line, self.line_start = 0, 1, 0
        self.last: Token | None = None

    def next(self, state: int) -> Token:
        """The next token that is not ignored; `$END` after the last."""
        text, tables = self.text, self.tables
        known, words = tables.accepted(state)
        while self.at < len(text):
            character = text[self.at]
            if character not in known:
                known[character] = tables.candidates(state, character)
            name, value = self._match(known[character])
            start, line, column = self.at, self.line, self.at - self.line_start + 1
            self.at = start + len(value)
            if "\n" in value:
                self.line += value.count("\n")
                self.line_start = start + value.rindex("\n") + 1
            ignored = name in tables.ignored
            if ignored and name not in tables.callbacks:
                continue
            if name in words:
                name = words[name].get(value, name)
            end = self.at - self.line_start + 1
            token = Token(name, value, start, line, column, self.line, end, self.at)
            if name in tables.callbacks:
                tables.callbacks[name](token)
            if not ignored:
                self.last = token
                return token
        if self.last is None:
            return Token("$END", "", 0, 1, 1)
        return Token.new_borrow_pos("$END", "", self.last)

    def _match(self, candidates: list[Candidate]) -> tuple[str, str]:
        text, at = self.text, self.at
        for name, literal, match in candidates:
            if match is None:
                if text.startswith(literal, at):
                    return name, literal
            else:
                found = match(text, at)
                if found is not None:
                    return name, found[0]
        raise Unexpected(text[at])
