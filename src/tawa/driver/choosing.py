"""The options of a launch that its caller leaves open: found for its sizes, tried, kept or not.

What a kernel's program does is looked at once and kept on disk; what suits the sizes of a launch is
arithmetic on that. A choice is a guess of the compiler's, so it never makes an error of what
compiles as written, and never takes what spills where that does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tawa.base.attempts import NO_SLACK
from tawa.base.errors import TawaError
from tawa.base.import_closure import source_digest
from tawa.base.options import Options
from tawa.driver import compile_cache as kept
from tawa.driver.choice.choose import Ranking
from tawa.driver.choice.profile import Profile
from tawa.ir.decisions.choice import Chosen, Considered
from tawa.runtime.cache import content_key, default_cache

if TYPE_CHECKING:
    from tawa.driver.compiled import Compiled
    from tawa.frontend.source.function import JITFunction

TRIED = 3
"""Candidates that are compiled before what was asked for is taken."""

PROFILER = "tawa.driver.choice.profiling"
"""The module that looks at programs: it and all that it imports decide what is found."""

MOST_SHOWN = 5
"""Candidates that a decision names."""

Key = tuple[tuple[str, Any], ...]
"""The options of a candidate besides those asked for."""


def profile_for(
    fn: JITFunction,
    types: Mapping[str, str],
    constants: Mapping[str, object],
    options: Options,
    key: str | None = None,
) -> Profile:
    """The profile of a kernel with the options as asked; kept on disk under `key`."""
    place = found = None
    if key is not None:
        looked_at_by = source_digest(PROFILER, store=default_cache())
        place = content_key(key, "profile", looked_at_by)
        found = default_cache().get(place)
    if found is not None:
        try:
            return Profile.from_json(found["json"].decode())
        except (ValueError, KeyError, TypeError, AttributeError):
            pass  # not what is written here: looked at again
    profile = _profiled(fn, types, constants, options, key)
    if place is not None:
        default_cache().put(place, {"json": profile.to_json().encode()})
    return profile


def _profiled(
    fn: JITFunction,
    types: Mapping[str, str],
    constants: Mapping[str, object],
    options: Options,
    key: str | None,
) -> Profile:
    """The profile of a kernel, from its modules around partition.

    Without products it is one role whatever is chosen, and is not divided.
    """
    from tawa.driver.attempts import Divided
    from tawa.driver.choice.profiling import multiplies, profile_of
    from tawa.driver.compilation import Compilation
    from tawa.driver.compiler import LookedAt, keep_for_compiling, tile_level, tile_options
    from tawa.driver.pipeline import dividing, passes
    from tawa.ir.copying import copied
    from tawa.ir.decisions.decision import Decisions

    plain = replace(options, persistent=None, deal=1, timeline=False)
    work, decided = Compilation(plain), Decisions()
    tile = tile_level(work, fn, types, constants)
    found = LookedAt(tile, kept.key_of(fn, types, constants, tile_options(plain)))
    if not multiplies(tile):
        profile = profile_of(tile, tile, plain.machine)
    else:
        steps = passes("aref", plain, decided, NO_SLACK)
        at = dividing(steps)
        program = work.run(steps[:at], copied(tile), goes_on=True)
        roles = work.run([steps[at]], copied(program), goes_on=True)
        profile = profile_of(program, roles, plain.machine)
        if key is not None and plain == options:
            found = replace(
                found, divided=Divided(roles, decided.made, (*work.unverified,)), key=key
            )
    if key is not None:
        keep_for_compiling(found)
    return profile


@dataclass(frozen=True)
class Fitted:
    """A kernel compiled for a launch: with which options besides those asked for."""

    compiled: Compiled
    options: Key = ()


def fitted(found: Ranking, compile_: Callable[[Key], Compiled]) -> Fitted:
    """The first candidate that compiles without a loss; `TRIED` are tried, then what was asked for.

    `compile_` takes options besides those asked for. Raises what compiling as written raises.
    """
    rejected, tried = Rejected(), 0
    for number, prediction in enumerate(found.better[:MOST_SHOWN]):
        options = prediction.candidate.options
        if options in rejected or tried == TRIED:
            continue
        tried += 1
        try:
            compiled = compile_(options)
        except (TawaError, Refused):
            compiled = None
        if compiled is not None and not loses(compiled, compile_):
            return Fitted(with_choice(compiled, found, number), options)
        rejected.add(options)
    return Fitted(with_choice(compile_(()), found, None))


def loses(compiled: Compiled, compile_: Callable[[Key], Compiled]) -> bool:
    """Whether a candidate spills, or serialises products, where what was asked for does not."""
    return bool(compiled.findings) and not compile_(()).findings


class Rejected:
    """Candidates that did not compile without a loss, and those that would not either.

    CTAs that found no room on a multiprocessor find none with other options, but for this: what
    goes on to further programs keeps more values, so others may fit where it does not.
    """

    def __init__(self) -> None:
        self._options: set[Key] = set()
        self._crowded: set[_Room] = set()

    def add(self, options: Key, *, crowded: bool = True) -> None:
        """Take a candidate for one that loses; `crowded`, with all that need as much room."""
        self._options.add(options)
        room = _room(options)
        if crowded and room != _Room():
            self._crowded |= {room, replace(room, persistent=True)}

    def __contains__(self, options: Key) -> bool:
        return options in self._options or _room(options) in self._crowded


@dataclass(frozen=True)
class _Room:
    """What decides whether CTAs fit: how many there are, and whether they go on and take turns."""

    ctas: int = 1
    persistent: bool = False
    turns: bool = False


def _room(options: Key) -> _Room:
    found = dict(options)
    return _Room(
        found.get("ctas_per_sm", 1), bool(found.get("persistent")), bool(found.get("ping_pong"))
    )


def with_choice(compiled: Compiled, found: Ranking, taken: int | None) -> Compiled:
    """The kernel with the decision that led to it, where there was one to make."""
    rest = (*found.better, *found.others)
    if not rest:
        return compiled
    written = Considered(str(found.written.candidate), found.written.microseconds)
    shown = tuple(Considered(str(p.candidate), p.microseconds) for p in rest[:MOST_SHOWN])
    decision = Chosen(shown[taken] if taken is not None else written, written, shown)
    return replace(compiled, decisions=(decision, *compiled.decisions))


class Refused(Exception):
    """A candidate did not compile when it was tried before."""


class Refusals:
    """Candidates that don't compile, on disk, so that another process need not try them."""

    def __init__(self, key: Callable[[Options], str]) -> None:
        self._key = key

    def compiled(self, options: Options, compile_: Callable[[Options], Compiled]) -> Compiled:
        """Compile with options, unless that was seen to fail. Raises what the compiler raises."""
        place = content_key(self._key(options), "refused")
        if default_cache().has(place):
            raise Refused(f"a kernel with {options} did not compile before")
        try:
            return compile_(options)
        except TawaError as error:
            default_cache().put(place, {"text": error.message.encode()})
            raise
