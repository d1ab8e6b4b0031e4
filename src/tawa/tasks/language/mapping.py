"""Mappings: where the instances of tasks run, and in which memories their tensors live.

    Mapping(
        Instance("gemm_grid", processor="device", tunables={"U": 128, "V": 256}),
        Instance("gemm_block", processor="block", pipeline=4, warp_specialize=True),
        Instance("gemm_tile", memories={"a": "shared", "b": "shared", "acc": "register"}),
    )

A mapping changes speed, never results. What it does not say, defaults do (`resolve`).
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from tawa.base.errors import in_short
from tawa.base.options import Options
from tawa.base.source import Span
from tawa.base.user_frames import entries, users_place
from tawa.tasks.language.errors import BadMapping, MachineNotThere

PROCESSORS = "node", "device", "block", "warp_group", "warp", "thread"
"""From the outermost to the innermost."""

WARPS = Options().machine.group_warps
"""Warps of a warp group."""

MEMORIES = "global", "shared", "register", "none"
"""Where a tensor may live; `none`: nowhere, it must never be materialised at this level."""

REACH = {
    "node": ("global", "none"),
    "device": ("global", "none"),
    "block": MEMORIES,
    "warp_group": MEMORIES,
    "warp": MEMORIES,
    "thread": MEMORIES,
}
"""Memories that a processor's code can touch."""

NAMED_OPTIONS = {
    "pipeline": "num_stages",
    "warp_specialize": "specialize",
    "warp_groups": "consumers",
}
"""Fields of an instance that are launch options by another name."""

KINDS: tuple[tuple[tuple[str, ...], Any, str], ...] = (
    (("name", "variant", "processor"), str, "a text"),
    (("warp_groups", "pipeline", "shared_cap", "tile_order"), int, "a whole number"),
    (("memories", "tunables", "options"), MappingOf, "a dict, by name"),
    (("calls",), (tuple, list), "names of instances"),
    (("warp_specialize", "entry"), bool, "True or False"),
)
"""Fields of an instance, and what they are; what has parts has names for them."""


def _is_of(kind: Any, given: Any) -> bool:
    """Whether a value is of a kind; no truth value is a number here."""
    return isinstance(given, kind) and (kind is bool or not isinstance(given, bool))


def _parts(given: Any) -> tuple[Any, ...]:
    """The keys of a dict, the elements of a list; of all else none."""
    return (*given,) if isinstance(given, MappingOf | tuple | list) else ()  # pyright: ignore[reportUnknownVariableType]


MANY = 1 << 31
RANGES = {
    "warp_groups": (1, 4),
    "pipeline": (1, 64),
    "shared_cap": (1, MANY),
    "tile_order": (1, MANY),
}
"""The least and the most that whole numbers of an instance may be."""


@entries
@dataclass(frozen=True)
class Instance:
    """How one instance of a task runs. What is None (or left out) follows from defaults.

    - `name`: by default a variant's name, which then is what runs.
    - `variant`: the name of the variant that runs.
    - `processor`: one of `PROCESSORS`.
    - `memories`: one of `MEMORIES` by parameter, for tensors; by the name of a variable that
      `make_tensor` is assigned to, for tensors of its own.
    - `tunables`: values by name.
    - `calls`: names of the instances that its launch statements run, in the order of the source.
    - `entry`: whether this is the instance that a call of the task runs.
    - what a `prange` of a block launches on a `warp_group` or a `warp` is shared by as many of
      them as it has iterations: each has a box.
    - at block level: `warp_specialize`, `warp_groups` (of consumers), `pipeline` (slots of each
      ring), `shared_cap` (most bytes of shared memory), `tile_order` (how many rows of the grid's
      blocks are walked together), and `options`, other fields of `tawa.Options`.
    """

    name: str
    variant: str | None = None
    processor: str | None = None
    memories: MappingOf[str, str] = field(default_factory=dict[str, str])
    tunables: MappingOf[str, Any] = field(default_factory=dict[str, Any])
    calls: tuple[str, ...] | None = None
    entry: bool = False
    warp_specialize: bool | None = None
    warp_groups: int | None = None
    pipeline: int | None = None
    shared_cap: int | None = None
    tile_order: int | None = None
    options: MappingOf[str, Any] = field(default_factory=dict[str, Any])
    span: Span | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Check what can be checked without a program. Raises `BadMapping`, `MachineNotThere`."""
        if self.span is None:
            object.__setattr__(self, "span", users_place())
        self._check_kinds()
        if self.processor is not None and self.processor not in PROCESSORS:
            raise MachineNotThere(
                f"`{self.name}` is mapped to a processor that no machine has",
                span=self.span,
                expected=" or ".join(PROCESSORS),
                found=repr(self.processor),
            )
        for tensor, memory in self.memories.items():
            if memory not in MEMORIES:
                raise MachineNotThere(
                    f"`{tensor}` of `{self.name}` is mapped to a memory that no machine has",
                    span=self.span,
                    expected=" or ".join(MEMORIES),
                    found=repr(memory),
                )
        known = {f.name for f in fields(Options)}
        for option in self.options:
            if option not in known or option in NAMED_OPTIONS.values():
                raise BadMapping(
                    f"`{self.name}` has no option `{option}`",
                    span=self.span,
                    expected="a field of tawa.Options that an instance has no field for",
                    found=option,
                )

    def __new__(cls, *_: Any, **named: Any) -> Self:
        """Raises `BadMapping` for a field that instances do not have."""
        known = [f.name for f in fields(cls)]
        for name in named:
            if name not in known:
                close = get_close_matches(name, known, 1)
                raise BadMapping(
                    f"an instance has no field `{name}`",
                    span=users_place(),
                    expected=", ".join(known[:-1]),
                    found=name,
                    hint=f"did you mean `{close[0]}`?" if close else "options={...} has others",
                )
        return super().__new__(cls)

    def _check_kinds(self) -> None:
        """Raises `BadMapping` for a field of another kind than it should be."""
        for names_, kind, expected in KINDS:
            for name in names_:
                given: Any = getattr(self, name)
                wrong = [part for part in _parts(given) if not isinstance(part, str)]
                if not wrong and (given is None or _is_of(kind, given)):
                    continue
                raise BadMapping(
                    f"`{name}` of Instance({self.name!r}) is {given!r}",
                    span=self.span,
                    expected=expected,
                    found=f"a {type(wrong[0] if wrong else given).__name__}",
                )
        for name, (least, most) in RANGES.items():
            given = getattr(self, name)
            if given is not None and not least <= given <= most:
                raise BadMapping(
                    f"`{name}` of Instance({self.name!r}) is {given}",
                    span=self.span,
                    expected=f"{least} to {most}" if most < MANY else f"{least} or more",
                    found=str(given),
                    hint=f"leave `{name}` out for the compiler's choice",
                )

    @property
    def launch_options(self) -> dict[str, Any]:
        """The options that its kernel is launched with."""
        named = {o: getattr(self, own) for own, o in NAMED_OPTIONS.items()}
        return {o: v for o, v in named.items() if v is not None} | dict(self.options)

    def text(self) -> str:
        """The record as Python writes it, without what defaults say."""
        parts = [repr(self.name)]
        for f in fields(self)[1:]:
            given = getattr(self, f.name)
            if f.name == "span" or given is None or given is False or given == {}:
                continue
            shown: Any = given
            if f.name in ("memories", "tunables", "options"):
                shown = dict(given)
            parts.append(f"{f.name}={shown!r}")
        return f"Instance({', '.join(parts)})"


def _require_record(given: Any, place: Span | None) -> None:
    """Raises `BadMapping` for what is no record."""
    if not isinstance(given, Instance):
        raise BadMapping(
            f"a mapping is given {in_short(given)}",
            span=place,
            expected="records: Mapping(Instance(...), Instance(...))",
            found=f"a {type(given).__name__}",
            hint="write Mapping(*records)" if isinstance(given, list | tuple) else None,
        )


@entries
class Mapping:
    """Records of instances, by name; `devices` is how many GPUs of one host it is made for.

    Mappings that say the same are equal: what was compiled for one serves the other.
    """

    def __init__(self, *instances: Instance, devices: int = 1) -> None:
        """Take the records. Raises `BadMapping`, `MachineNotThere`."""
        place = users_place()
        self.instances: dict[str, Instance] = {}
        for instance in instances:
            _require_record(instance, place)
            if instance.name in self.instances:
                raise BadMapping(
                    f"two records are called `{instance.name}`",
                    span=instance.span,
                    expected="a name for each instance",
                    found="the same name twice",
                )
            self.instances[instance.name] = instance
        for instance in instances:
            for called in instance.calls or ():
                if called not in self.instances:
                    raise BadMapping(
                        f"`{instance.name}` calls an instance that the mapping does not have",
                        span=instance.span,
                        expected=" or ".join(self.instances),
                        found=called,
                    )
        if not _is_of(int, devices):
            raise BadMapping(
                f"`devices` of a mapping is {devices!r}",
                span=place,
                expected="a whole number",
                found=f"a {type(devices).__name__}",
            )
        if devices < 1 or (devices > 1 and not any(i.processor == "node" for i in instances)):
            raise MachineNotThere(
                f"the mapping is for {devices} devices",
                span=place,
                expected="an instance on the node, whose `prange` is dealt to the devices"
                if devices > 1
                else "at least one device",
                found=f"devices={devices}" + (", no processor 'node'" if devices > 1 else ""),
                hint="map the outermost instance to 'node'" if devices > 1 else None,
            )
        self.span, self.devices = place, devices

    @property
    def on_node(self) -> bool:
        """Whether an instance stands above devices."""
        return any(i.processor == "node" for i in self.instances.values())

    @cached_property
    def key(self) -> str:
        """Equal for mappings that say the same."""
        return self.text()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Mapping) and self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)

    def text(self) -> str:
        """The mapping as Python writes it, one record a line."""
        lines = [f"    {instance.text()},\n" for instance in self.instances.values()]
        more = f"    devices={self.devices},\n" if self.devices > 1 else ""
        return f"Mapping(\n{''.join(lines)}{more})" if lines else "Mapping()"

    def write(self, path: str | Path) -> None:
        """Write the mapping to a file that may be edited, and read by `Mapping.read`."""
        head = "from tawa.tasks import Instance, Mapping\n\n"
        Path(path).write_text(f"{head}mapping = {self.text()}\n")

    @staticmethod
    def read(path: str | Path) -> Mapping:
        """The `mapping` that a Python file defines. Raises `BadMapping`."""
        scope: dict[str, Any] = {}
        expected = "`mapping = Mapping(...)`"
        try:
            code = compile(Path(path).read_text(), str(path), "exec")
        except OSError as error:
            why = f"there is no mapping to be read in {path}"
            raise BadMapping(why, expected="a file of Python", found=str(error.strerror)) from None
        except SyntaxError as error:
            at, column = error.lineno or 1, max(0, (error.offset or 1) - 1)
            span = Span(str(path), at, column, at, column + 1)
            why = f"{path} is no Python: {error.msg}"
            raise BadMapping(why, span=span, expected=expected, found=error.msg) from None
        exec(code, scope)
        found = scope.get("mapping")
        if not isinstance(found, Mapping):
            raise BadMapping(f"{path} has no mapping", expected=expected, found=repr(found))
        return found


EMPTY = Mapping()
