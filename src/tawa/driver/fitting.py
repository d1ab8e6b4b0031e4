"""A kernel fitted to its launches: what its caller leaves open is chosen for their sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tawa.base.errors import TawaError
from tawa.base.locks import one_at_a_time
from tawa.base.options import Options
from tawa.driver import compile_cache as kept
from tawa.driver.choice.candidates import is_open
from tawa.driver.choice.choose import Ranking, ranking
from tawa.driver.choice.profile import Profile, Sizes
from tawa.driver.choosing import Fitted, Key, Refusals, fitted, profile_for
from tawa.driver.variants import Loaded, Variants
from tawa.machine.chips import chip
from tawa.runtime.kinds import part_named
from tawa.runtime.launch import computed_grid, grid_sizes

if TYPE_CHECKING:
    from tawa.driver.compiled import Compiled
    from tawa.driver.host_launch import Launch
    from tawa.frontend.source.function import JITFunction


@dataclass(frozen=True)
class Fitting:
    """One kernel with its argument types and the options that its caller gave."""

    fn: JITFunction
    types: Mapping[str, str]
    constants: Mapping[str, Any]
    options: Options
    asked: Mapping[str, Any]
    """The options that were given: demands."""
    names: Sequence[str]
    """The launch's values in order."""
    compile_: Callable[[Options], Compiled]

    def sizes(self, grid: Any, named: Mapping[str, Any]) -> Sizes | None:
        """The sizes of a launch; None where the grid is not known."""
        if grid is None:
            return None
        found = grid_sizes(computed_grid(grid, named) if callable(grid) else grid)
        given = ((name, part_named(name, named)) for name in self.names)
        numbers = tuple((n, v) for n, v in given if type(v) is int and n in self.types)
        return Sizes(found, numbers).rounded

    @one_at_a_time
    def fitted(self, sizes: Sizes | None) -> Fitted:
        """The kernel compiled for a launch. Raises what compiling as written raises."""
        ranked = self.rank(sizes) if sizes is not None else None
        if ranked is None:
            return Fitted(self.compile_(self.options))
        return fitted(ranked, self._compiled)

    def variants(
        self,
        found: Fitted,
        sizes: Sizes | None,
        load: Callable[[Compiled], Launch],
        captures: Callable[[Any], bool],
    ) -> Variants | None:
        """The variants that suit launches of other sizes; None where all launches are alike."""
        if sizes is None or not self.may_vary:
            return None
        first = Loaded(found.compiled, load(found.compiled))
        numbers = [name for name, _ in sizes.numbers]

        def rank(sizes: Sizes) -> Ranking:
            ranked = self.rank(sizes)
            assert ranked is not None
            return ranked

        return Variants(
            names=tuple(numbers),
            places=tuple(list(self.names).index(name) for name in numbers),
            rank=rank,
            build=self._compiled,
            load=lambda key: Loaded(compiled := self._compiled(key), load(compiled)),
            captures=captures,
            current=first,
            found={found.options: first},
            gain=chip(self.options.chip).choice.gain,
        )

    def rank(self, sizes: Sizes) -> Ranking | None:
        """The candidates for a launch; None where there is nothing to choose."""
        if not self.may_vary:
            return None
        assert self._profile is not None
        return ranking(self._profile, sizes, self.asked, chip(self.options.chip))

    @property
    def may_vary(self) -> bool:
        """Whether there is anything to choose for launches of any size."""
        return is_open(self.asked) and self._profile is not None and self._profile.groups > 0

    def _compiled(self, key: Key) -> Compiled:
        options = replace(self.options, **dict(key))
        if not key:
            return self.compile_(options)
        return self._refusals.compiled(options, self.compile_)

    @cached_property
    def _refusals(self) -> Refusals:
        return Refusals(lambda options: kept.key_of(self.fn, self.types, self.constants, options))

    @cached_property
    def _profile(self) -> Profile | None:
        """What the kernel's program does; None where the compiler refuses it."""
        parts = self.types, self.constants, self.options
        try:
            return profile_for(self.fn, *parts, kept.key_of(self.fn, *parts))
        except TawaError:
            return None
