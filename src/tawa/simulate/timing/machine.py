"""One multiprocessor in time: actors, pipes, the tensor core and the copy engine as events.

Straight-line code of several warp groups shares each scheduler: every piece of work has a speed, 1
when alone, and pieces slow each other down as far as they want more of a pipe than there is.
Everything else is a queue: matrix instructions run group after group, copies one after the other
at the multiprocessor's share of L2.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from heapq import heappop, heappush
from random import Random
from typing import Any

from tawa.machine.chips import Chip
from tawa.simulate.interpret import errors
from tawa.simulate.timing.state import (
    DONE,
    Actor,
    Barrier,
    Core,
    Look,
    Meeting,
    Piece,
    Rates,
    left_of,
)
from tawa.simulate.timing.trace import Trace
from tawa.simulate.timing.work import Work

PIPES = ("issue", "alu", "special", "shared")
MOST_EVENTS = 5_000_000
"""Events after which a replay is given up: about a minute."""


class Machine:
    """Runs the actors of the CTAs that share one multiprocessor, or of one cluster."""

    def __init__(
        self,
        target: Chip,
        rates: Rates,
        actors: Sequence[Actor],
        places: Sequence[int],
        trace: Trace | None = None,
    ):
        """`places[i]` is the multiprocessor of CTA i; a `trace` gets what happens."""
        self.target, self.rates = target, rates
        self.costs, self.timing = target.costs, target.timing
        self.actors, self.places, self.trace = actors, places, trace
        self.heap: list[tuple[float, int, Any, int]] = []
        self.count = 0
        self.active: dict[int, list[Piece]] = {place: [] for place in places}
        self.updated: dict[int, float] = dict.fromkeys(places, 0.0)
        self.cores: dict[int, Core] = {place: Core() for place in places}
        for number, actor in enumerate(actors):
            actor.favour = 1.0 + self.timing.matrix_favour * number
            actor.share = 1.0 + self.timing.work_favour * number
        self.random = Random(0)
        self.prepared: dict[int, tuple[float, tuple[float, ...]]] = {}
        self.load_free: dict[int, float] = dict.fromkeys(places, 0.0)
        self.store_free: dict[int, float] = dict.fromkeys(places, 0.0)
        self.memory_free: dict[int, float] = dict.fromkeys(places, 0.0)
        self.warm: set[int] = set()
        """Multiprocessors that have loaded."""
        self.barriers: dict[tuple[int, int], Barrier] = {}
        self.meetings: dict[tuple[int, int], Meeting] = {}
        self.busy: dict[str, float] = {}
        self.loaded = self.stored = self.end = 0.0
        self.handlers = (
            self._work, self._matrix, self._commit, self._matrix_wait, self._load, self._store,
            self._bulk_commit, self._bulk_wait, self._init, self._expect, self._arrive,
            self._wait, self._meet, self._iteration, self._stamp, self._note, self._copy,
            self._copy_arrive,
        )  # fmt: skip

    def run(self) -> float:
        """Run all actors to their end; gives the time of the last thing that happens, in cycles.

        Raises Deadlock when some wait, or go on, for ever.
        """
        for actor in self.actors:
            self._push(0.0, actor)
        end = 0.0
        while self.heap:
            time, _, what, version = heappop(self.heap)
            if isinstance(what, Actor):
                what.now = max(what.now, time)
                self._advance(what)
            elif isinstance(what, Piece):
                if what.version != version:
                    continue
                self._finished(what, time)
            elif isinstance(what, Look):
                if self.cores[what.place].version != version:
                    continue
                self._look(what.place, time)
            else:
                what(time)
            end = max(end, time)
            if self.count > MOST_EVENTS:
                raise errors.Deadlock(
                    f"a replay goes on after {MOST_EVENTS} events",
                    expected="a loop that ends",
                    found="one that may wait for a value of memory",
                    hint="a prediction takes loaded values as zero; predict a smaller problem",
                )
        if not all(actor.done for actor in self.actors):
            waiting = [actor.name for actor in self.actors if not actor.done]
            raise errors.Deadlock(
                f"nobody can go on: {len(waiting)} actors wait",
                expected="every wait to be met by an arrival",
                found=", ".join(waiting),
                hint="a prediction takes loaded values as zero; `simulate.check` finds deadlocks",
            )
        ends = [t for a in self.actors for t in (a.now, *a.stores[-1:])]
        self.end = max([end, *ends])
        return self.end

    def _push(self, time: float, what: Any, version: int = 0) -> None:
        self.count += 1
        heappush(self.heap, (time, self.count, what, version))

    def _advance(self, actor: Actor) -> None:
        """Run an actor's steps until it has to wait."""
        for step in actor.steps:
            if self.handlers[step[0]](actor, step):
                return
        actor.done = True

    def _later(self, actor: Actor) -> bool:
        """Go on at the actor's own time, after what happens before it."""
        self._push(actor.now, actor)
        return True

    def _until(self, actor: Actor, time: float, name: str) -> bool:
        """Let an actor wait for a time that is known."""
        if self.trace is not None:
            self.trace.own(actor, name, actor.now, time)
        actor.now = time
        return self._later(actor)

    def _use(self, resource: str, cycles: float) -> None:
        self.busy[resource] = self.busy.get(resource, 0.0) + cycles

    # --- ordinary code --------------------------------------------------------------------------

    def _work(self, actor: Actor, step: tuple[Any, ...]) -> bool:
        work: Work = step[1]
        found = self.prepared.get(id(work))
        if found is None:
            found = self.prepared[id(work)] = work.alone(self.timing.stretch)
        alone, wants = found
        # Without it, groups can lock into a rhythm, good or bad, that hardware would not keep.
        alone *= 1.0 + self.timing.jitter * (2.0 * self.random.random() - 1.0)
        for pipe, want in zip(PIPES, wants, strict=True):
            if want:
                self._use(pipe, want * alone)
        if alone < self.timing.grain:
            actor.now += alone
            return False
        actor.since = actor.now
        place = self.places[actor.cta]
        self._settle(place, actor.now)
        self.active[place].append(Piece(actor, wants, alone))
        self._share(place, actor.now)
        return True

    def _settle(self, place: int, now: float) -> None:
        """Account for what the pieces of a multiprocessor did since the last change."""
        elapsed = now - self.updated[place]
        if elapsed > 0:
            for piece in self.active[place]:
                piece.left -= elapsed * piece.speed
            self.updated[place] = now

    def _share(self, place: int, now: float) -> None:
        """Give each piece its speed and the time at which it ends if nothing changes.

        Schedulers take turns among their warps: pieces that want more of a pipe than there is all
        slow down alike.
        """
        pieces = self.active[place]
        if not pieces:
            return
        now = max(now, self.updated[place])
        beside = bool(self.cores[place].streams)
        capacity = self.timing.capacity_beside_tensor if beside else self.timing.capacity
        wanted = [sum(p.wants[i] * p.actor.share for p in pieces) for i in range(len(capacity))]
        most = [have / want if want else 1.0 for have, want in zip(capacity, wanted, strict=True)]
        for piece in pieces:
            speed = 1.0
            for i, want in enumerate(piece.wants):
                if want:
                    speed = min(speed, most[i] * piece.actor.share)
            if speed != piece.speed or piece.version == 0:
                piece.speed = speed
                piece.version += 1
                self._push(now + max(piece.left, 0.0) / speed, piece, piece.version)

    def _finished(self, piece: Piece, time: float) -> None:
        place = self.places[piece.actor.cta]
        self._settle(place, time)
        self.active[place].remove(piece)
        self._share(place, time)
        piece.actor.now = time
        if self.trace is not None:
            self.trace.work(piece.actor, piece.actor.since, time)
        self._advance(piece.actor)

    # --- the tensor core ------------------------------------------------------------------------

    def _matrix(self, actor: Actor, step: tuple[Any, ...]) -> bool:
        """Hand an instruction to the tensor core."""
        cycles = step[1]
        if not actor.fresh:
            actor.fresh = True
            actor.now += self.costs.matrix_fence
            place, core = self.places[actor.cta], self.cores[self.places[actor.cta]]
            begin = actor.begun = actor.now + self.costs.matrix_lead
            self._run_core(place, begin)
            if actor not in core.streams:
                core.streams[actor] = core.finished.pop(actor, 0.0)
                if len(core.streams) == 1:
                    self._settle(place, begin)
                    self._share(place, begin)
        actor.now += cycles * self.timing.matrix_issue
        actor.issued += cycles
        actor.last = cycles
        self._use("tensor", cycles)
        return False

    def _commit(self, actor: Actor, _step: tuple[Any, ...]) -> bool:
        """Close the group; its issue holds the warps while more is left than the queue takes."""
        actor.groups.append(actor.issued)
        actor.fresh = False
        if self.trace is not None:
            self.trace.issued(actor, actor.begun)
        actor.waits_for = actor.issued - self.timing.matrix_queue * actor.last
        return self._when_run(actor, self.places[actor.cta], actor.now, 0.0)

    def _matrix_wait(self, actor: Actor, step: tuple[Any, ...]) -> bool:
        place = len(actor.groups) - step[1]
        if place <= 0:
            return False
        actor.waits_for = actor.groups[place - 1]
        return self._when_run(actor, self.places[actor.cta], actor.now, self.costs.matrix_tail)

    def _when_run(self, actor: Actor, place: int, now: float, latency: float) -> bool:
        """Let an actor go on when what it waits for has run; whether it has to wait."""
        core = self.cores[place]
        self._run_core(place, now)
        done = core.streams.get(actor)
        if done is None or done >= actor.waits_for - DONE:
            self._next_of_core(place)
            return False
        actor.latency = latency
        actor.waiting, actor.since = True, now
        self._next_of_core(place)
        return True

    def _run_core(self, place: int, now: float) -> None:
        """Account for what the tensor core did until now."""
        core = self.cores[place]
        elapsed = now - core.updated
        if elapsed <= 0:
            return
        core.updated = now
        whole = sum(actor.favour for actor in core.streams)
        for actor, before in core.streams.items():
            ran = core.streams[actor] = min(before + elapsed * actor.favour / whole, actor.issued)
            if self.trace is not None:
                self.trace.ran(actor, before, ran, (now - elapsed, now))

    def _next_of_core(self, place: int) -> None:
        """Look again when the next actor's instructions end, or reach what it waits for.

        Instructions of several actors take turns, so the last of one ends before the last of those
        that come after it in their iteration, though all have run equally far.
        """
        core = self.cores[place]
        many = len(core.streams)
        if not many:
            return
        whole = sum(actor.favour for actor in core.streams)
        least = min(
            left_of(actor, done, many - 1 - rank) * whole / actor.favour
            for rank, (actor, done) in enumerate(core.streams.items())
        )
        core.version += 1
        self._push(core.updated + max(least, 0.0), Look(place), core.version)

    def _look(self, place: int, time: float) -> None:
        """Let those go on whose instructions have run."""
        core = self.cores[place]
        self._run_core(place, time)
        many = len(core.streams)
        for rank, actor in enumerate(list(core.streams)):
            done = core.streams[actor]
            if actor.waiting and left_of(actor, done, many - 1 - rank) * many <= DONE:
                gain = max(0.0, actor.waits_for - done)
                for other in core.streams:
                    core.streams[other] += gain if other is actor else -gain / (many - 1 or 1)
                done += gain
                actor.waiting = False
                actor.now = max(actor.now, time + actor.latency)
                if self.trace is not None:
                    self.trace.ran(actor, done, done, (time, time))
                    what = "wgmma wait" if actor.latency else "wgmma issue"
                    self.trace.own(actor, what, actor.since, actor.now)
                self._push(actor.now, actor)
            if done >= actor.issued - DONE:
                core.finished[actor] = core.streams.pop(actor)
        if not core.streams:
            self._settle(place, time)
            self._share(place, time)
        self._next_of_core(place)

    # --- the copy engine ------------------------------------------------------------------------

    def _load(self, actor: Actor, step: tuple[Any, ...]) -> bool:
        _, barrier, size, mask, free = step
        actor.now += self.timing.copy_issue
        ctas = [i for i in range(mask.bit_length()) if mask >> i & 1] if mask else [actor.cta]
        landed = actor.now if free else self._moved(actor, size)
        for cta in ctas:
            self._push(landed, partial(self._count, cta, barrier, 0, -size))
        return False

    def _copy(self, actor: Actor, step: tuple[Any, ...]) -> bool:
        """Copies that the actor's threads start; they go the way of other loads."""
        actor.copied = max(actor.copied, self._moved(actor, step[1]))
        return False

    def _copy_arrive(self, actor: Actor, step: tuple[Any, ...]) -> bool:
        """Arrivals of threads whose copies have landed."""
        _, barrier, threads = step
        actor.now += self.costs.arrive
        count = partial(self._count, actor.cta, barrier, threads, 0)
        self._push(max(actor.now, actor.copied), count)
        return False

    def _moved(self, actor: Actor, size: int) -> float:
        """When so many bytes that an actor asks for now have landed."""
        place = self.places[actor.cta]
        cycles = size / self.rates.load_bytes
        start = max(actor.now, self.load_free[place])
        self.load_free[place] = start + cycles
        self._use("copies", cycles)
        self.loaded += size
        fresh, behind = self._misses(actor)
        moved = self._from_memory(place, start, size * behind)
        landed = max(start + cycles, moved) + self.rates.load_latency
        landed += self.rates.miss_latency * fresh
        if place not in self.warm:
            self.warm.add(place)
            landed += self.rates.cold
        if self.trace is not None:
            self.trace.engine(actor, "copies", start, landed)
        return landed

    def _misses(self, actor: Actor) -> tuple[float, float]:
        """Of an actor's next load: the part from device memory, and bytes moved there for each."""
        number, misses = actor.loads, self.rates.misses
        actor.loads += 1
        if number < len(misses.fresh):
            return misses.fresh[number], misses.moved[number]
        return misses.rest, misses.rest

    def _from_memory(self, place: int, start: float, size: float) -> float:
        """When the multiprocessor's share of device memory has moved some more bytes."""
        self.memory_free[place] = max(start, self.memory_free[place]) + (
            size / self.rates.memory_bytes
        )
        return self.memory_free[place]

    def _store(self, actor: Actor, step: tuple[Any, ...]) -> bool:
        actor.now += self.timing.copy_issue
        place = self.places[actor.cta]
        cycles = step[1] / self.rates.store_bytes
        end = max(actor.now, self.store_free[place]) + cycles
        self.store_free[place] = end
        self._from_memory(place, actor.now, step[1])
        self._use("stores", cycles)
        self.stored += step[1]
        if self.trace is not None:
            self.trace.engine(actor, "stores", end - cycles, end)
        actor.open_store = max(actor.open_store, end + self.timing.store_latency)
        return False

    def _bulk_commit(self, actor: Actor, _step: tuple[Any, ...]) -> bool:
        actor.now += self.timing.store_issue
        actor.stores.append(actor.open_store)
        return False

    def _bulk_wait(self, actor: Actor, step: tuple[Any, ...]) -> bool:
        place: int = len(actor.stores) - step[1]
        actor.now += self.timing.store_wait
        if place > 0 and actor.stores[place - 1] > actor.now:
            return self._until(actor, actor.stores[place - 1], "store wait")
        return False

    # --- barriers -------------------------------------------------------------------------------

    def _init(self, actor: Actor, step: tuple[Any, ...]) -> bool:
        _, first, slots, arrivals = step
        for slot in range(slots):
            self.barriers[actor.cta, first + 8 * slot] = Barrier(arrivals, arrivals)
        actor.now += 4.0 * slots
        return False

    def _expect(self, actor: Actor, step: tuple[Any, ...]) -> bool:
        actor.now += self.costs.arrive
        self._count(actor.cta, step[1], 1, step[2], actor.now)
        return False

    def _arrive(self, actor: Actor, step: tuple[Any, ...]) -> bool:
        _, cta, barrier, threads = step
        actor.now += self.costs.arrive
        self._count(actor.cta if cta < 0 else cta, barrier, threads, 0, actor.now)
        return False

    def _count(self, cta: int, at: int, arrivals: int, size: int, time: float) -> None:
        """Arrivals and bytes at a barrier; completes its phase when nothing is missing."""
        barrier = self.barriers[cta, at]
        barrier.left -= arrivals
        barrier.bytes += size
        barrier.time = max(barrier.time, time)
        if barrier.left <= 0 and barrier.bytes == 0:
            barrier.phase += 1
            barrier.left = barrier.arrivals
            for actor in barrier.waiting:
                self._wake(actor, barrier.time + self.costs.mbarrier_latency, "barrier wait")
            barrier.waiting.clear()

    def _wait(self, actor: Actor, step: tuple[Any, ...]) -> bool:
        barrier = self.barriers[actor.cta, step[1]]
        actor.now += self.costs.wait
        if (barrier.phase - 1) & 1 == step[2]:
            late = barrier.time + self.costs.mbarrier_latency
            if barrier.phase and late > actor.now:
                return self._until(actor, late, "barrier wait")
            return False
        barrier.waiting.append(actor)
        return True

    def _meet(self, actor: Actor, step: tuple[Any, ...]) -> bool:
        _, number, threads, own, waits = step
        cta = actor.cta if number >= 0 else -1
        key = cta, number
        if number < 0:
            threads *= len(self.places)
        meeting = self.meetings.setdefault(key, Meeting())
        if meeting.left <= 0:
            meeting.left = threads
            meeting.time = 0.0
        meeting.left -= own
        actor.now += self.costs.meeting_arrive
        meeting.time = max(meeting.time, actor.now)
        if waits:
            meeting.waiting.append(actor)
        if meeting.left <= 0:
            for other in meeting.waiting:
                self._wake(other, meeting.time + self.costs.meeting_latency, "meeting")
            meeting.waiting.clear()
        return waits

    def _wake(self, actor: Actor, time: float, name: str) -> None:
        """Let an actor go on at a time, or at its own if that is later."""
        time = max(actor.now, time)
        if self.trace is not None:
            self.trace.own(actor, name, actor.now, time)
        self._push(time, actor)

    def _iteration(self, actor: Actor, _step: tuple[Any, ...]) -> bool:
        """An iteration of the actor's outermost loop begins."""
        actor.iterations.append(actor.now)
        return False

    def _stamp(self, actor: Actor, step: tuple[Any, ...]) -> bool:
        """A recording kernel would read its clock now."""
        actor.stamps.append((actor.now, step[1], step[2]))
        return False

    def _note(self, actor: Actor, step: tuple[Any, ...]) -> bool:
        """The actor's next step is about this."""
        if self.trace is not None:
            self.trace.note(actor, step)
        return False


__all__ = ["MOST_EVENTS", "Actor", "Machine", "Rates"]
