"""Runs a module of the hopper level: CTAs one cluster after the other, their actors together."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from tawa.base.launch_plans import persistent_ctas
from tawa.base.numerics import Array
from tawa.base.spans import span_of
from tawa.hopper.dialect.machine import Wait
from tawa.hopper.dialect.matrix import Wgmma
from tawa.hopper.dialect.structure import Role, SharedWarpGroup
from tawa.machine.chips import DEFAULT, SM_90A, Chip
from tawa.simulate.interpret import errors
from tawa.simulate.interpret.actor import HopperActor
from tawa.simulate.interpret.barriers import NamedBarrier
from tawa.simulate.interpret.clocks import SEEN, Components
from tawa.simulate.interpret.cta import (
    Allocation,
    Cta,
    allocations,
    barrier_addresses,
    granule_of,
    new_cta,
)
from tawa.simulate.interpret.global_memory import GlobalMemory
from tawa.simulate.interpret.launch import kernel_of, number_of, parameters, spec_of
from tawa.simulate.interpret.limits import Limits
from tawa.simulate.interpret.machine import SWITCH, Event, Machine, Task, Warps
from tawa.simulate.interpret.spinning import Change, take_turns, waits_forever
from tawa.simulate.interpret.structured import BUILTIN


@dataclass(frozen=True)
class Span:
    """Warps `first` to `first + count` of the CTA act as one."""

    name: str
    first: int
    count: int


def warp_spans(kernel: func.FuncOp, warps: int) -> list[Span]:
    """How the CTA's warps fall into actors: the warp groups of each team of each role.

    Warps of no role run only what stands outside the roles.
    """
    spans: list[Span] = []
    taken: set[int] = set()
    for role in kernel.walk():
        if not isinstance(role, Role):
            continue
        first, per, teams = (p.value.data for p in (role.first_warp, role.warps, role.teams))
        for team in range(teams):
            for group in range(0, per, 4):
                name = role.role.data
                name += f"[{team}]" if teams > 1 else ""
                name += f".{group // 4}" if per > 4 else ""
                start = first + team * per + group
                if start not in taken:
                    spans.append(Span(name, start, min(4, per - group)))
                    taken |= set(range(start, start + spans[-1].count))
    free = [w for w in range(warps) if w not in taken]
    for w in free:
        last = spans[-1] if spans else None
        if last and last.name == "idle" and last.first + last.count == w and last.count < 4:
            spans[-1] = Span("idle", last.first, last.count + 1)
        else:
            spans.append(Span("idle", w, 1))
    return sorted(spans, key=lambda s: s.first)


def one_by_one(kernel: func.FuncOp, spans: Sequence[Span]) -> list[Span]:
    """The same with an actor for each warp, where no instruction is of a whole warp group."""
    if any(isinstance(op, Wgmma) for op in kernel.walk()):
        return list(spans)
    return [
        Span(f"{span.name}, warp {i}" if span.count > 1 else span.name, span.first + i, 1)
        for span in spans
        for i in range(span.count)
    ]


def check_registers(kernel: func.FuncOp, threads: int, target: Chip = DEFAULT) -> None:
    """Raise if the roles ask for more registers than the launch gets."""
    granted = min(target.max_registers // 8 * 8, target.registers // threads // 8 * 8)
    asked = 0
    named = 0
    text: list[str] = []
    for role in kernel.walk():
        if isinstance(role, SharedWarpGroup) and role.registers is not None:
            asked += role.registers.value.data * role.WARPS * 32
            named += role.WARPS * 32
            text.append(f"shared: {role.WARPS} warps x {role.registers.value.data}")
        if isinstance(role, Role) and role.registers is not None:
            warps = role.warps.value.data * role.teams.value.data
            whole = -(-warps // SM_90A.group_warps) * SM_90A.group_warps
            asked += role.registers.value.data * whole * 32
            named += whole * 32
            text.append(f"{role.role.data}: {whole} warps x {role.registers.value.data}")
    if not named:
        return
    asked += granted * max(0, threads - named)
    if asked > granted * threads:
        raise errors.RegistersOverPool(
            f"`{kernel.sym_name.data}` asks for more registers than its launch gets",
            span=span_of(kernel),
            expected=f"{granted} x {threads} threads = {granted * threads} registers",
            found=f"{asked} ({'; '.join(text)})",
            hint="lower the largest role's count, or have fewer warps",
        )


class RoundRobin:
    """One actor runs until it must wait; copies happen when nobody else can go on."""

    def __init__(self) -> None:
        self._last = 0

    def choose(self, actors: Sequence[int], tasks: int) -> int:
        """An index into the ready actors, or beyond them into the tasks."""
        del tasks
        if not actors:
            return 0
        at = next((i for i, number in enumerate(actors) if number >= self._last), 0)
        self._last = actors[at]
        return at


class RandomSchedule:
    """Any ready actor or copy, at every step of communication."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def choose(self, actors: Sequence[int], tasks: int) -> int:
        """An index into the ready actors, or beyond them into the tasks."""
        return self._random.randrange(len(actors) + tasks)


@dataclass(eq=False)
class _Running:
    """An actor and what it waits for."""

    actor: HopperActor
    steps: Iterator[Wait]
    wait: Wait = field(default=SWITCH)


@dataclass(frozen=True)
class Cluster:
    """All that running one cluster needs."""

    kernel: func.FuncOp
    values: Sequence[Any]
    memory: GlobalMemory
    grid: tuple[int, int, int]
    blocks: Sequence[tuple[int, int, int]]
    shared_bytes: int
    threads: int
    single_warps: bool = False
    """Whether each warp goes on by itself where it can; else warp groups do."""


def _machine(cluster: Cluster, found: list[Allocation]) -> tuple[Machine, list[HopperActor]]:
    components = Components()
    spans = warp_spans(cluster.kernel, cluster.threads // 32)
    if cluster.single_warps:
        spans = one_by_one(cluster.kernel, spans)
    many = len(cluster.blocks) > 1
    warps: list[list[Warps]] = []
    barriers: list[dict[int, int]] = []
    for rank in range(len(cluster.blocks)):
        prefix = f"CTA {rank} " if many else ""
        warps.append([warps_of(components, span, prefix) for span in spans])
        barriers.append(
            {at: components.add(f"{prefix}{label}") for at, label in barrier_addresses(found)}
        )
    clock = components.clock
    meeting = NamedBarrier("the meeting of the cluster", clock(), clock())
    machine = Machine(cluster.memory, cluster.grid, cluster.threads, components, meeting)
    actors: list[HopperActor] = []
    granule = granule_of(cluster.kernel)
    for rank, block in enumerate(cluster.blocks):
        size = cluster.shared_bytes
        cta = new_cta(rank, block, size, found, components, barriers[rank], granule)
        machine.ctas.append(cta)
        actors += [HopperActor(machine, cta, w, BUILTIN) for w in warps[rank]]
    return machine, actors


def warps_of(components: Components, span: Span, prefix: str) -> Warps:
    """An actor's warps, with new components for them and their engines."""
    name = prefix + span.name + ("" if span.name != "idle" else f" warp {span.first}")
    own = tuple(components.add(f"warp {i} of {name}", threads=True) for i in range(span.count))
    matrix = components.add(f"a matrix instruction of {name}")
    engines = [components.add(f"{name}: {what}") for what in ("bulk stores", "copies of threads")]
    return Warps(name, span.first, span.count, own, matrix, *engines)


def run_cluster(
    cluster: Cluster,
    schedule: RoundRobin | RandomSchedule,
    traces: dict[str, list[Event]] | None = None,
    checking: bool = True,
    limits: Limits | None = None,
) -> None:
    """Run the actors of one cluster by itself, as `cluster_steps` does.

    Raises `WaitsForever` where it waits for what another would do.
    """
    for change in cluster_steps(cluster, schedule, traces, checking, limits):
        raise waits_forever([change])


def cluster_steps(
    cluster: Cluster,
    schedule: RoundRobin | RandomSchedule,
    traces: dict[str, list[Event]] | None = None,
    checking: bool = True,
    limits: Limits | None = None,
) -> Iterator[Change]:
    """Run the actors of one cluster to their end, checking every step; yields to let others run.

    `traces` gets each actor's communication; without `checking`, unordered accesses of shared
    memory are not reported.
    Raises LimitReached when the run goes on for longer than `limits` allow.
    """
    found = allocations(cluster.kernel, cluster.shared_bytes)
    machine, actors = _machine(cluster, found)
    machine.checking, machine.limits = checking, limits
    if limits is not None:
        limits.start_run()
    if traces is not None:
        machine.traces = traces
        traces.update({actor.name: [] for actor in actors})
    running: list[_Running] = []
    for actor in actors:
        for argument, value in zip(cluster.kernel.args, cluster.values, strict=True):
            actor.bind(argument, value)
        running.append(_Running(actor, iter(actor.block_ops(cluster.kernel.body.block))))
    live = list(range(len(running)))
    while live or machine.tasks:
        ready = [i for i in live if running[i].wait.ready()]
        tasks = machine.tasks
        if not ready and not tasks:
            spinning = [w for w in (running[i].wait for i in live) if isinstance(w, Change)]
            if not spinning:
                raise _deadlock(machine, [running[i] for i in live])
            yield spinning[0]
            continue
        choice = schedule.choose(ready, len(tasks))
        if choice < len(ready):
            _step(running[ready[choice]], live, ready[choice])
        else:
            _copy(tasks.pop(choice - len(ready)))
    if checking:
        check_exit(machine, actors)


def _step(running: _Running, live: list[int], number: int) -> None:
    actor = running.actor
    try:
        running.wait = next(running.steps)
    except StopIteration:
        live.remove(number)
        actor.ended()
    except errors.ProtocolError as error:
        if error.span is None:
            error.span = span_of(actor.op)
        if not any(note.text.startswith("by ") for note in error.notes):
            error.with_note(f"by {actor.doing()}")
        raise


def _copy(task: Task) -> None:
    task.done = True
    try:
        task.execute()
    except errors.ProtocolError as error:
        if error.span is None:
            error.span = span_of(task.op)
            error.with_note(f"after {task.name}")
        raise


def _deadlock(machine: Machine, stuck: Sequence[_Running]) -> errors.ProtocolError:
    """Why nobody can go on: a barrier that can't complete as it is set up, or a cycle.

    The barrier that is the fewest phases along is where it began.
    """
    waits = [getattr(r.wait, "describe", lambda: "?")() for r in stuck]
    waited = [b for cta in machine.ctas for b in cta.mbarriers.values() if b.waiters]
    least = min((b.phase for b in waited), default=0)
    span = span_of(stuck[0].actor.op)
    for barrier in (b for b in waited if b.phase == least and b.bytes and not b.pending):
        return errors.WrongByteCount(
            f"phase {least} of {barrier.label} waits for bytes that no copy brings",
            span=span,
            expected=f"{barrier.announced} bytes, as announced",
            found=f"{barrier.landed} bytes landed, and nobody can go on",
            hint="announce the bytes that the copies of one phase move, no more",
            notes=waits,
        )
    for barrier in (b for b in waited if b.phase == least and b.present):
        here = {a.actor for a in barrier.present}
        if here == barrier.ever:
            return errors.WrongArrivalCount(
                f"phase {least} of {barrier.label} waits for arrivals that nobody makes",
                span=span,
                expected=f"{barrier.arrivals} arrivals",
                found=f"{barrier.arrivals - barrier.pending}, by all who ever arrive there: "
                + ", ".join(sorted(here)),
                hint="initialise the mbarrier with the number of its participants",
                notes=waits,
            )
    return errors.Deadlock(
        f"nobody can go on: {len(stuck)} actors wait",
        span=span,
        expected="every wait to be met by an arrival",
        found="\n".join(waits + [b.state() for b in waited]),
        hint="follow who waits for whom: an arrive or a return is missing, or comes too late",
    )


def check_exit(machine: Machine, actors: Sequence[HopperActor]) -> None:
    """What must have happened before a CTA's shared memory goes away."""
    for cta in machine.ctas:
        clocks = [a.clock.max(axis=0) for a in actors if a.cta is cta]
        seen = np.max(clocks, axis=0)[SEEN]
        for component, time, op, text in cta.remote:
            if seen[component] < time:
                raise errors.ClusterExit(
                    f"CTA {cta.rank} may have ended before {text}",
                    span=span_of(op),
                    expected="a meeting of the cluster after the last access of a CTA by another",
                    found="nothing in that CTA waits for it",
                    hint="add `hopper.cluster_sync` at the end of the kernel",
                )
        copying = [a.warps.copies for a in actors if a.cta is cta]
        _check_copies(machine, cta, seen, copying)


def _check_copies(machine: Machine, cta: Cta, seen: Array, copying: Sequence[int]) -> None:
    """Every copy into the CTA has been waited for by somebody in it.

    `copying` are the components of its threads' own copies.
    """
    shadow = cta.shadow
    late = (shadow.writer >= 0) & (seen[shadow.writer] < shadow.written)
    late &= np.isin(shadow.writer, [*cta.barrier_components.values(), *copying])
    if late.any():
        first = int(late.argmax())
        granule = shadow.granule_of(first)
        record = machine.records[int(shadow.write_record[first])]
        raise errors.CopyAfterExit(
            f"the CTA may end before a copy into {cta.granule_place(granule)} has landed",
            span=span_of(record.op),
            expected="a wait for every copy that is started",
            found=f"nobody waits for {record.text}",
            hint="start only the copies that are consumed, or wait for them before the end",
        )


def cluster_blocks(
    grid: tuple[int, int, int], cluster: int
) -> Iterator[list[tuple[int, int, int]]]:
    """The CTAs of each cluster, in launch order."""
    for z in range(grid[2]):
        for y in range(grid[1]):
            for x in range(0, grid[0], cluster):
                yield [(x + i, y, z) for i in range(cluster)]


def prepared(
    module: ModuleOp, grid: Sequence[int], args: Sequence[Any], multiprocessors: int
) -> Iterator[Cluster]:
    """Every cluster of a launch."""
    kernel = kernel_of(module)
    spec = spec_of(module, kernel)
    threads, shared = (number_of(kernel, key) for key in ("threads", "shared_bytes"))
    ctas = number_of(kernel, "cluster")
    programs = (*grid, 1, 1)[:3]
    full = (int(programs[0]), int(programs[1]), int(programs[2]))
    launched, resident = full, multiprocessors * spec.ctas_per_sm
    if spec.grid == "persistent":
        resident = -(-resident // ctas) * ctas
        launched = (persistent_ctas(spec, full, resident), 1, 1)
    check_registers(kernel, threads, DEFAULT.divided(spec.ctas_per_sm))
    memory = GlobalMemory()
    values = parameters(spec, args, full, (resident, launched[0]), memory)
    for blocks in cluster_blocks(launched, ctas):
        yield Cluster(kernel, values, memory, launched, blocks, shared, threads)


def run(
    module: ModuleOp,
    grid: Sequence[int],
    args: Sequence[Any],
    *,
    seed: int | None = None,
    multiprocessors: int = SM_90A.multiprocessors,
    single_warps: bool = False,
) -> None:
    """Run a hopper module on NumPy arrays, which it changes in place.

    `grid` is the user's grid; `args` are the kernel's run-time arguments: NumPy arrays in storage
    form, numbers, tensor descriptors on NumPy arrays. Clusters run one after the other, each to its
    end or until it waits for another, at most `multiprocessors` CTAs at the same time; the actors
    of one cluster run together: by default in turns, each until it must wait; with `seed`, in a
    random order that may change at every step of communication. Warp groups are actors; with
    `single_warps`, warps are, in kernels without instructions of whole groups. A persistent kernel
    gets at most `multiprocessors` CTAs.

    Raises a `ProtocolError` for the first broken rule of communication, whatever the schedule, and
    `WaitsForever` for a loop that nobody can end.
    """
    clusters = enumerate(prepared(module, grid, args, multiprocessors))
    together = multiprocessors // number_of(kernel_of(module), "cluster")
    with np.errstate(all="ignore"):
        take_turns(
            (
                cluster_steps(
                    replace(cluster, single_warps=single_warps),
                    RoundRobin() if seed is None else RandomSchedule(seed + number),
                )
                for number, cluster in clusters
            ),
            max(1, together),
        )
