"""Taking down, and setting again, the state of a cluster's actors: without how long they have run.

Times of a clock's component are compared with one another and with nothing else, so they are
replaced by their rank among those that can still be compared: recorded accesses, the present, and
what the clocks themselves hold of time. Phases keep their parity; counts of groups in flight keep
their differences. What follows from a state follows from it after the replacement as well, and the
other way round, so a run that comes back to a state has shown what every further turn shows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tawa.base.numerics import Array
from tawa.hopper.dialect.structure import Barriers
from tawa.hopper.dialect.sync import MbarrierWait
from tawa.simulate.interpret.barriers import Arrival, Mbarrier, NamedBarrier, Passed
from tawa.simulate.interpret.clocks import FENCED, LOADED, ROWS, SEEN, TIMED
from tawa.simulate.interpret.machine import Machine, Task
from tawa.simulate.prove.actor import Walker
from tawa.simulate.prove.path import Loop, Path
from tawa.simulate.prove.pieces import PieceShadow

NOBODY: Array = np.zeros(0)
NO_TASK = Task("a store", None, lambda: None, True)


class ActorState(NamedTuple):
    """An actor, but for its clocks."""

    at: int
    narrow: int
    met: int | None
    place: tuple[int, int]
    values: tuple[Any, ...]
    loops: tuple[Loop, ...]
    matrix: tuple[int, int]
    issued: int
    stores: tuple[int, ...]
    stored: tuple[int, int]
    copies: int


class BarrierState(NamedTuple):
    """An mbarrier, but for its clocks."""

    address: int
    arrivals: int
    pending: int
    bytes: int
    phase: int
    announced: int
    landed: int
    late: int
    fenced: bool
    initialised: tuple[int, int]
    present: tuple[tuple[str, str], ...]
    passed: tuple[tuple[tuple[int, ...], tuple[int, ...], int], ...]


class MeetingState(NamedTuple):
    """A named barrier, but for its clocks."""

    number: int
    threads: int
    arrived: int
    present: tuple[str, ...]
    alone: str | None
    generation: int


class State(NamedTuple):
    """All of a cluster, and what its path has decided."""

    clocks: Array
    shadows: tuple[tuple[Array, Array, Array], ...]
    actors: tuple[ActorState, ...]
    barriers: tuple[tuple[BarrierState, ...], ...]
    meetings: tuple[tuple[MeetingState, ...], ...]
    remote: tuple[tuple[tuple[int, int], ...], ...]
    path: Path

    def key(self) -> Hashable:
        """Equal for states that differ in their clocks alone: in who has seen how much."""
        facts = self.path.facts
        return (
            tuple(array.tobytes() for arrays in self.shadows for array in arrays),
            self.actors, self.barriers, self.meetings, self.remote,
            frozenset(facts.ranges.items()), frozenset(facts.truths.items()),
            frozenset(self.path.shifts.items()), self.path.free, self.path.parked,
        )  # fmt: skip


def meetings_of(machine: Machine) -> Iterator[NamedBarrier]:
    """All named barriers, of the cluster first."""
    yield machine.meeting
    for cta in machine.ctas:
        yield from (cta.named[number] for number in sorted(cta.named))


def mbarriers_of(machine: Machine) -> Iterator[Mbarrier]:
    """All mbarriers that are initialised."""
    for cta in machine.ctas:
        yield from (cta.mbarriers[at] for at in sorted(cta.mbarriers))


class Fill(NamedTuple):
    """A slot of a ring of tiles: where it lies, and a clock component for what is written there."""

    rank: int
    wheel: int
    tiles: int
    slot: int
    first: int
    last: int
    component: int


@dataclass
class Cluster:
    """A cluster's machine and actors, whose state is taken down and set."""

    machine: Machine
    actors: Sequence[Walker]
    meetings: dict[tuple[int, int], int]
    """Clock components of named barriers (`Walker.meetings`)."""
    waiters: dict[int, set[int]]
    """For each mbarrier's component, those of the first warps of the actors that wait there."""
    rows: dict[int, int]
    """For each mbarrier's component, where its row begins."""
    alike: bool
    """Ask for more than is needed, so that more states are alike."""
    fills: Sequence[Fill] = ()
    """Slots whose writes count as one, whoever made them."""

    def __post_init__(self) -> None:
        self.ways = _ways(self.actors, self.rows)

    def _clocks(self) -> list[Array]:
        """Every clock, each `[4, components]`."""
        rows: list[Array] = []
        for actor in self.actors:
            rows += [*actor.clock, *actor.matrix_issued]
        for barrier in (*mbarriers_of(self.machine), *meetings_of(self.machine)):
            rows += [barrier.collected, barrier.published]
        return rows

    def change_clocks(self, change: Callable[[Array], Array]) -> None:
        """Change every clock: `change` takes all of them, `[clocks, 4, components]`."""
        rows = iter(change(np.stack(self._clocks())))
        for actor in self.actors:
            actor.clock = np.stack([next(rows) for _ in range(actor.warps.count)])
            actor.matrix_issued = [next(rows) for _ in actor.matrix_issued]
        for barrier in (*mbarriers_of(self.machine), *meetings_of(self.machine)):
            barrier.collected, barrier.published = next(rows), next(rows)

    def _join_fills(self) -> None:
        """Say of a slot that has been written that it has: not who wrote which part of it.

        Who knows of all writes knows of that. What nobody knows of yet is not over.
        """
        clocks = np.stack(self._clocks())
        for fill in self.fills:
            shadow = self.machine.ctas[fill.rank].shadow
            assert isinstance(shadow, PieceShadow)
            own = shadow.within(fill.first, fill.last)
            own = own[shadow.writer[own] >= 0]
            known = _array((clocks[:, :, shadow.writer[own]] >= shadow.written[own]).all(axis=2))
            if known[:, SEEN].any() and own.size:
                clocks[:, :, fill.component] = known
                shadow.writer[own], shadow.written[own] = fill.component, 1
        self.change_clocks(lambda _: clocks)

    # --- ranks ----------------------------------------------------------------------------------

    def _mark_compared(self, marked: Array) -> None:
        """Mark the times of each component with which a clock's row is compared, in `marked[row]`.

        The rows `SEEN` and `FENCED` with all accesses, `LOADED` with reads, `SEEN` also with when
        barriers were initialised, `TIMED` with waits that have gone on.
        """
        for shadow in (cta.shadow for cta in self.machine.ctas):
            pieces, readers = shadow.read.nonzero()
            times = shadow.read[pieces, readers]
            for row in (SEEN, FENCED):
                marked[row, shadow.writer, shadow.written] = True
            for row in (SEEN, FENCED, LOADED):
                marked[row, readers, times] = True
        for barrier in mbarriers_of(self.machine):
            marked[SEEN, barrier.initialised[0], barrier.initialised[1]] = True
            for wait in barrier.passed:
                marked[TIMED, wait.components, wait.times] = True
        for cta in self.machine.ctas:
            for component, time, *_ in cta.remote:
                marked[SEEN, component, time] = True

    def _present(self) -> dict[int, tuple[int, int | None]]:
        """The present of each component; for barriers also the running phase, else None."""
        found: dict[int, tuple[int, int | None]] = {}
        for actor in self.actors:
            for row, component in enumerate(actor.warps.components):
                found[component] = int(actor.clock[row, SEEN, component]), None
            found[actor.warps.matrix] = actor.matrix_done, None
            found[actor.warps.bulk] = actor.stores_read, None
            found[actor.warps.copies] = len(actor.copies), None
            for own in actor.waits.values():
                for row, component in enumerate(own):
                    found[component] = int(actor.clock[row, TIMED, component]), None
        for barrier in mbarriers_of(self.machine):
            found[barrier.component] = max(0, barrier.phase - 1), barrier.phase
        for (rank, number), component in self.meetings.items():
            meeting = self._meeting(rank, number)
            found[component] = (0 if meeting is None else meeting.generation), None
        return found

    def _meeting(self, rank: int, number: int) -> NamedBarrier | None:
        machine = self.machine
        return machine.meeting if rank < 0 else machine.ctas[rank].named.get(number)

    def _tables(
        self, present: dict[int, tuple[int, int | None]], most: int, count: int
    ) -> tuple[Array, Array]:
        """What each time of each component becomes.

        First for the rows of clocks, `[4, components, times]`: the rank of the last time before it
        that the row is compared with. Then for those times themselves, `[components, times]`.
        """
        times = np.arange(most + 4)
        marked = np.zeros((ROWS, count, most + 4), bool)
        self._mark_compared(marked)
        marked[:, :, 0] = True
        # What is to come: accesses by warps from their present on, by engines after it. That a
        # phase or a meeting is over is asked of the row `TIMED` alone.
        for component, (now, phase) in present.items():
            marked[:, component, now + 1 :] = True
            marked[TIMED, component, now] |= phase is not None
        for actor in self.actors:
            for component in actor.warps.components:
                marked[:, component, present[component][0]] = True
        for actor in self.actors:
            warps = actor.warps
            others = [*warps.components, warps.matrix, warps.bulk, warps.copies]
            marked[TIMED, others, 1:] = False  # waits have clocks of their own
        marked[LOADED, ~np.array(self.machine.components.threads), 1:] = False
        for component in self.meetings.values():
            marked[[SEEN, FENCED, LOADED], component, 1:] = False
            marked[TIMED, component, present[component][0]] = True
        ranks = _ranks(np.asarray(marked.any(axis=0)), *self._now(present, count))
        last = np.maximum.accumulate(np.where(marked, times, 0), axis=2)
        return ranks[np.arange(count)[:, None], last], ranks

    def _now(self, present: dict[int, tuple[int, int | None]], count: int) -> tuple[Array, Array]:
        """The present of all components, and the running phases of mbarriers: -1 for others."""
        now, phases = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for component, (time, phase) in present.items():
            now[component], phases[component] = time, -1 if phase is None else phase
        return now, phases

    def _forget_clocks(self) -> None:
        """Drop what barriers need not tell: to know less is to be more careful.

        A phase, or a meeting, to which nobody has come tells nothing of the ones before; one that
        all have waited for tells nothing more; an mbarrier tells nothing of meetings; to have come
        after all arrivals in the last phase is not used.
        """
        meetings = list(self.meetings.values())
        for barrier in mbarriers_of(self.machine):
            barrier.last = None
            barrier.collected[:, meetings] = barrier.published[:, meetings] = 0
            if barrier.pending == barrier.arrivals and not barrier.copies and not barrier.late:
                barrier.collected[:] = 0
            if self._all_have_waited(barrier):
                barrier.published[:] = 0
        for meeting in meetings_of(self.machine):
            inside = any(actor.meeting is meeting for actor in self.actors)
            if not meeting.arrived and not inside:
                meeting.collected[:] = meeting.published[:] = 0

    def _drop_known_waits(self) -> None:
        """Drop waits of which all who can still complete a phase know that they have gone on."""
        least: dict[int, Array] = {}
        for barrier in mbarriers_of(self.machine):
            row = self.rows[barrier.component]
            if row not in least:
                clocks = [a.clock[:, TIMED] for a in self.actors if a.may_arrive(row)]
                least[row] = np.concatenate(clocks).min(axis=0) if clocks else NOBODY
            _drop_known(barrier, least[row])

    def _touch_late(self, now: dict[int, tuple[int, int | None]]) -> None:
        """Keep the last touch of another CTA; where states are to be alike, the last release's."""
        for cta in self.machine.ctas:
            latest: dict[int, int] = {}
            for component, time, *_ in cta.remote:
                least = now[component][0] - 1 if self.alike else 0
                latest[component] = max(latest.get(component, least), time)
            cta.remote = [(c, time, None, "an access") for c, time in sorted(latest.items())]

    def _drop_added_waits(self) -> None:
        """Drop waits of which every clock knows, as of those that `_add_known_waits` has added."""
        least = np.stack(self._clocks())[:, TIMED].min(axis=0)
        for barrier in mbarriers_of(self.machine):
            _drop_known(barrier, least)

    def _add_known_waits(self) -> None:
        """Say of slots without a wait that they had one, before all others, of which all know.

        So a ring's first round is as the others, but for what clocks have seen. It asks for more:
        that whoever completes the next phase knows of this wait, too.
        """
        barriers: dict[tuple[int, int], list[Mbarrier]] = defaultdict(list)
        for cta in self.machine.ctas:
            for barrier in (cta.mbarriers[at] for at in sorted(cta.mbarriers)):
                barriers[cta.rank, self.rows[barrier.component]].append(barrier)
        for (rank, row), slots in barriers.items():
            for components in self.ways.get((rank, row), ()):
                self._add_waits(slots, components)

    def _tell_known(self) -> None:
        """Let barriers tell what all actors know: it is news to nobody.

        A barrier that nobody has come to tells as much then as one that all have come to.
        """
        least = np.concatenate([actor.clock for actor in self.actors]).min(axis=0)
        for barrier in (*mbarriers_of(self.machine), *meetings_of(self.machine)):
            np.maximum(barrier.published, least, out=barrier.published)
            np.maximum(barrier.collected, least, out=barrier.collected)

    def _add_waits(self, slots: Sequence[Mbarrier], components: tuple[int, ...]) -> None:
        """Add one actor's waits where it has none at the slots of a ring."""
        without = [b for b in slots if all(w.components != components for w in b.passed)]
        more = len(without)
        for clock in self._clocks():
            clock[TIMED, list(components)] += more
        for barrier in slots:
            for number, wait in enumerate(barrier.passed):
                if wait.components == components:
                    times = tuple(time + more for time in wait.times)
                    barrier.passed[number] = wait._replace(times=times)
        for time, barrier in enumerate(without, 1):
            times = (time,) * len(components)
            barrier.passed.append(Passed("a wait", components, times, barrier.phase - 1))

    def _all_have_waited(self, barrier: Mbarrier) -> bool:
        """Whether all who ever wait at a barrier have waited for its last phase."""
        passed = {w.components[0] for w in barrier.passed if w.phase == barrier.phase - 1}
        return bool(passed) and self.waiters[barrier.component] <= passed

    def _replace_times(self) -> None:
        """Give every time its rank."""
        if self.alike:
            self._drop_added_waits()
        self._forget_clocks()
        self._drop_known_waits()
        present = self._present()
        self._touch_late(present)
        clocks = np.stack(self._clocks())
        count = clocks.shape[2]
        most = max(int(clocks.max()), *(int(c.shadow.written.max()) for c in self.machine.ctas))
        most = max(most, *(now for now, _ in present.values()))
        rows, table = self._tables(present, most, count)
        columns, every = _numbers(count), _numbers(ROWS)[:, None]
        self.change_clocks(lambda clocks: rows[every, columns, clocks])
        for barrier in mbarriers_of(self.machine):
            self._replace_phase(barrier, table)
        for (rank, number), component in self.meetings.items():
            meeting = self._meeting(rank, number)
            if meeting is not None:
                self._replace_generation(meeting, int(table[component, meeting.generation]))
        for actor in self.actors:
            self._replace_counts(actor, table)
        for cta in self.machine.ctas:
            shadow = cta.shadow
            shadow.written = table[shadow.writer, shadow.written]
            shadow.read = table[columns, shadow.read]
            cta.remote = [(c, int(table[c, t]), op, text) for c, t, op, text in cta.remote]

    def _replace_generation(self, meeting: NamedBarrier, new: int) -> None:
        for actor in self.actors:
            if actor.met is not None and actor.meeting is meeting:
                actor.met += new - meeting.generation
        meeting.generation = new

    def _replace_phase(self, barrier: Mbarrier, table: Array) -> None:
        new = int(table[barrier.component, barrier.phase])
        latest: dict[tuple[tuple[int, ...], int], tuple[int, ...]] = {}
        for wait in barrier.passed:
            key = wait.components, wait.phase - barrier.phase + new
            times = tuple(
                int(table[c, t]) for c, t in zip(wait.components, wait.times, strict=True)
            )
            before = latest.get(key, times)
            latest[key] = tuple(max(a, b) for a, b in zip(before, times, strict=True))
        barrier.passed = [Passed("a wait", c, t, p) for (c, p), t in sorted(latest.items())]
        component, time = barrier.initialised
        barrier.initialised = component, int(table[component, time])
        barrier.phase = new
        barrier.present = sorted(barrier.present, key=lambda a: (a.actor, a.kind))

    def _replace_counts(self, actor: Walker, table: Array) -> None:
        warps = actor.warps
        shift = actor.matrix_done - int(table[warps.matrix, actor.matrix_done])
        actor.matrix_done -= shift
        actor.matrix_committed -= shift
        shift = actor.stores_read - int(table[warps.bulk, actor.stores_read])
        actor.stores_read -= shift
        actor.stores_committed -= shift
        actor.stores = [(group - shift, task) for group, task in actor.stores]
        actor.copies = [[] for _ in range(int(table[warps.copies, len(actor.copies)]))]

    # --- taking down ------------------------------------------------------------------------------

    def take(self, path: Path) -> State:
        """The state, after its times have been replaced."""
        self._join_fills()
        self._replace_times()
        if self.alike:
            self._add_known_waits()
            self._tell_known()
        ctas = self.machine.ctas
        return State(
            np.stack(self._clocks()).astype(np.int16),
            tuple((c.shadow.writer.copy(), c.shadow.written.copy(), c.shadow.read.copy())
                  for c in ctas),
            tuple(map(_actor_state, self.actors)),
            tuple(tuple(_barrier_state(at, cta.mbarriers[at]) for at in sorted(cta.mbarriers))
                  for cta in ctas),
            (
                (_meeting_state(0, self.machine.meeting),),
                *(tuple(_meeting_state(n, cta.named[n]) for n in sorted(cta.named))
                  for cta in ctas),
            ),
            tuple(tuple((c, time) for c, time, *_ in cta.remote) for cta in ctas),
            path,
        )  # fmt: skip

    # --- setting ----------------------------------------------------------------------------------

    def set(self, state: State) -> None:
        """Be in a state again."""
        rows = iter(state.clocks.astype(np.int32))
        for cta, barriers, meetings in zip(
            self.machine.ctas, state.barriers, state.meetings[1:], strict=True
        ):
            cta.mbarriers = {b.address: self._barrier(cta.rank, b) for b in barriers}
            cta.named = {}
            for meeting in meetings:
                cta.named_barrier(meeting.number)
        for actor, found in zip(self.actors, state.actors, strict=True):
            self._set_actor(actor, found, rows, state.path)
        for barrier in mbarriers_of(self.machine):
            barrier.collected, barrier.published = next(rows), next(rows)
        for meeting, found in zip(
            meetings_of(self.machine), (m for row in state.meetings for m in row), strict=True
        ):
            meeting.threads, meeting.arrived = found.threads, found.arrived
            meeting.generation, meeting.present = found.generation, list(found.present)
            meeting.alone = found.alone
            meeting.collected, meeting.published = next(rows), next(rows)
        for cta, shadow, remote in zip(self.machine.ctas, state.shadows, state.remote, strict=True):
            arrays = (array.copy() for array in shadow)
            cta.shadow.writer, cta.shadow.written, cta.shadow.read = arrays
            cta.remote = [(c, time, None, "an access") for c, time in remote]

    def _barrier(self, rank: int, found: BarrierState) -> Mbarrier:
        cta = self.machine.ctas[rank]
        barrier = Mbarrier(
            cta.place(found.address), cta.barrier_components[found.address], found.arrivals,
            NOBODY, NOBODY,  # its clocks are set when all barriers are there
        )  # fmt: skip
        barrier.pending, barrier.bytes, barrier.phase = found.pending, found.bytes, found.phase
        barrier.announced, barrier.landed, barrier.late = found.announced, found.landed, found.late
        barrier.fenced, barrier.initialised = found.fenced, found.initialised
        barrier.present = [Arrival(actor, actor, kind) for actor, kind in found.present]
        barrier.passed = [Passed("a wait", *parts) for parts in found.passed]
        return barrier

    def _set_actor(
        self, actor: Walker, found: ActorState, rows: Iterator[Array], path: Path
    ) -> None:
        actor.path = path
        actor.at = found.at
        actor.values = {**actor.given, **dict(zip(actor.live[found.at], found.values, strict=True))}
        actor.clock = np.stack([next(rows) for _ in range(actor.warps.count)])
        actor.matrix_issued = [next(rows) for _ in range(found.issued)]
        actor.narrow = found.narrow
        actor.set_threads()
        actor.met = found.met
        actor.meeting = actor.meeting_at() if found.met is not None else None
        actor.team, actor.first_thread = found.place
        actor.loops_open = list(found.loops)
        actor.matrix_done, actor.matrix_committed = found.matrix
        actor.matrix_groups = [[] for _ in range(found.matrix[1] - found.matrix[0] + 1)]
        actor.stores = [(group, NO_TASK) for group in found.stores]
        actor.stores_read, actor.stores_committed = found.stored
        actor.copies = [[] for _ in range(found.copies)]


def _drop_known(barrier: Mbarrier, least: Array) -> None:
    """Drop the waits at a barrier that a clock's row has seen; all of them for `NOBODY`."""
    barrier.passed = [
        wait
        for wait in barrier.passed
        if least is not NOBODY and (least[list(wait.components)] < wait.times).any()
    ]


def _ways(
    actors: Sequence[Walker], rows: dict[int, int]
) -> dict[tuple[int, int], list[tuple[int, ...]]]:
    """For each CTA and row of mbarriers, the clock components of those who wait there.

    Those are left out who wait there with one warp and with all of them.
    """
    found: dict[tuple[int, int], list[tuple[int, ...]]] = defaultdict(list)
    for actor in actors:
        ways: dict[int, set[int]] = defaultdict(set)
        narrow = 0
        for step in actor.code:
            narrow += (step.kind == "narrow") - (step.kind == "widen")
            if isinstance(step.op, MbarrierWait) and isinstance(step.op.barrier.owner, Barriers):
                row = step.op.barrier.owner.offset.value.data
                ways[row].add(1 if narrow else actor.warps.count)
        for row, counts in ways.items():
            own = next(w for b, w in actor.waits.items() if rows[b] == row)
            if len(counts) == 1:
                found[actor.rank, row].append(tuple(own[: counts.pop()]))
    return found


def _numbers(count: int) -> Array:
    return np.arange(count)


def _ranks(marks: Array, now: Array, phases: Array) -> Array:
    """For each component: the ranks of times below `now` among the marked, later ones in distances.

    Of an mbarrier, `now` is the phase before the running one, whose rank is as odd or even as it.
    """
    times = _numbers(marks.shape[1])
    before = _array(times < now[:, None])
    kept = _array(marks & before)
    kept[:, 0] = False
    ranks = _array(np.cumsum(kept, axis=1))
    first = _array(np.where(now > 0, ranks[:, -1] + 1, 0))
    first += (phases >= 0) & ((first + 1 - phases) % 2 == 1)
    later = _array(times - now[:, None] + first[:, None])
    begun = _array((phases < 0) | (phases > 1))
    found = _array(np.where(before, ranks, later))
    return _array(np.where(begun[:, None], found, times)).astype(np.int32)


def _array(found: Any) -> Array:
    return found


def _actor_state(actor: Walker) -> ActorState:
    return ActorState(
        actor.at, actor.narrow, actor.met, (actor.team, actor.first_thread),
        tuple(actor.values[v] for v in actor.live[actor.at]),
        tuple(actor.loops_open), (actor.matrix_done, actor.matrix_committed),
        len(actor.matrix_issued), tuple(group for group, _ in actor.stores),
        (actor.stores_read, actor.stores_committed), len(actor.copies),
    )  # fmt: skip


def _barrier_state(at: int, barrier: Mbarrier) -> BarrierState:
    return BarrierState(
        at, barrier.arrivals, barrier.pending, barrier.bytes, barrier.phase, barrier.announced,
        barrier.landed, barrier.late, barrier.fenced,
        barrier.initialised, tuple((a.actor, a.kind) for a in barrier.present),
        tuple((w.components, w.times, w.phase) for w in barrier.passed),
    )  # fmt: skip


def _meeting_state(number: int, meeting: NamedBarrier) -> MeetingState:
    return MeetingState(
        number, meeting.threads, meeting.arrived, tuple(sorted(meeting.present)), meeting.alone,
        meeting.generation,
    )  # fmt: skip
