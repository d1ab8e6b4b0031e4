"""Checkouts of this repository timed beside each other, on one device in one run.

    python benchmarks/checkouts.py --pack 62570a2f         # into build/carry/62570a2f.tar.xz
    python benchmarks/checkouts.py build/carry/62570a2f.tar.xz .
    python benchmarks/checkouts.py OLD . --only rotary,gemm --seconds 60

A checkout is a folder, or an archive of one: its `src` and its `tests/workloads`. The first is what
the others are compared with. Each has processes of its own (`checkouts_worker.py`), with its own
cache: several of them compile all cases first, then one of each checkout times case after case, in
turn. Inputs are the same, results are compared with float64, and with the first checkout's. A case
that a checkout does not have, or that hangs there, is left out and named. Rows have the commit of
their checkout, and `ratio`, the first checkout's time over theirs: above one is faster than it was.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from checkouts_process import Problem, Process

from tawa.runtime.timing import Timing, interleaved

ROOT = Path(__file__).resolve().parents[1]
WORKER = Path(__file__).with_name("checkouts_worker.py")
PARTS = "src", "tests/workloads"
"""Of a checkout, what a worker needs."""
COMPILING = 0.5
"""Part of a run's seconds that compiling may take."""
PATIENCE = 60.0
"""Seconds after which a worker hangs."""
GRACE = 10.0
"""Seconds more that a case may take which began to compile in time."""
ENOUGH = 6.0
"""Seconds that have to be left for a case to be begun."""
NOTICED = 0.02
"""Differences of time that the summary names."""
ALIKE = 2.0
"""Results differ where they are this many times the tolerance apart."""


class Answering(Protocol):
    """What does what it is told: a process, or what stands for it in a test."""

    def ask(self, within: float, do: str, **words: Any) -> Any:
        """What it answers in so many seconds. Raises `Problem`."""
        ...

    def end(self) -> None:
        """It is asked no more."""
        ...


@dataclass(frozen=True)
class Checkout:
    """A folder with a checkout, and how its processes are started."""

    name: str
    folder: Path
    start: Callable[[], Answering]


class Clock:
    """The seconds of a run."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self.whole = seconds

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.end - time.monotonic()


@dataclass
class Station:
    """A process of a checkout; another takes its place where it hangs or ends."""

    checkout: Checkout
    clock: Clock
    process: Answering | None = None

    def ask(self, do: str, *, by: float = 0.0, **words: Any) -> Any:
        """Ask, while `by` seconds or more of the run are left and `PATIENCE` lasts.

        Raises `Problem`, after which there may be a new process.
        """
        if self.process is None:
            self.process = self.checkout.start()
        try:
            return self.process.ask(max(1.0, min(PATIENCE, self.clock.left - by)), do, **words)
        except Problem as problem:
            if problem.over:
                self.end()
            raise

    def end(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.end()
            self.process = None


@dataclass
class Left:
    """Cases that were left out, with where and why."""

    why: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])

    def add(self, name: str, checkout: str, why: object) -> None:
        """Leave a case out."""
        self.why.setdefault(name, {})[checkout] = str(why).strip().splitlines()[0]

    def __contains__(self, name: str) -> bool:
        return name in self.why


def compiled(
    checkouts: Sequence[Checkout], names: Sequence[str], jobs: int, clock: Clock, left: Left
) -> None:
    """Compile every case in each checkout, in so many processes in all."""
    until = clock.left - clock.whole * COMPILING
    each = max(1, jobs // len(checkouts))

    def work(checkout: Checkout, names: deque[str]) -> None:
        station = Station(checkout, clock)
        while names and clock.left > until:
            name = names.popleft()
            try:
                station.ask("compile", by=until - GRACE, name=name)
            except Problem as problem:
                left.add(name, checkout.name, problem)
            except IndexError:
                break
        station.end()

    with ThreadPoolExecutor(each * len(checkouts)) as pool:
        for checkout in checkouts:
            shared = deque(names)
            for _ in range(each):
                pool.submit(work, checkout, shared)


class Turns:
    """A stopwatch whose works are stations: each times the case that it has open."""

    def times_for(self, work: Any, seconds: float) -> list[float]:
        """Milliseconds of executions."""
        return work.ask("times", seconds=seconds)


def opened(name: str, stations: Mapping[str, Station]) -> dict[str, dict[str, Any]]:
    """Open a case everywhere, at once; what each says of it."""
    with ThreadPoolExecutor(len(stations)) as pool:
        asked = {c: pool.submit(s.ask, "open", name=name) for c, s in stations.items()}
    return {checkout: answer.result() for checkout, answer in asked.items()}


def judged(name: str, found: Mapping[str, dict[str, Any]], left: Left) -> dict[str, float]:
    """How far the results are from float64, or from the first checkout's; wrong ones are left."""
    first = next(iter(found.values()))
    errors: dict[str, float] = {}
    for checkout, answer in found.items():
        error = answer["error"] if answer["exact"] else apart(answer["sample"], first["sample"])
        errors[checkout] = error
        if not error < answer["tolerance"]:
            left.add(name, checkout, f"wrong: {error:.1e}")
        elif not apart(answer["sample"], first["sample"]) < ALIKE * answer["tolerance"]:
            left.add(name, checkout, "not what the first checkout gives")
    return errors


def apart(one: Sequence[float], other: Sequence[float]) -> float:
    """The relative distance of two samples; inf where they are not alike."""
    if len(one) != len(other):
        return math.inf
    found = math.dist(one, other) / (math.hypot(*other) or 1.0)
    return found if found == found else math.inf


def timed(
    run: Any, name: str, stations: Mapping[str, Station], left: Left, options: Any
) -> dict[str, float]:
    """Time one case in turn and write its rows; each checkout's ratio to the first."""
    found = opened(name, stations)
    errors = judged(name, found, left)
    if name in left:
        return {}
    with run.sampler.sampling():
        times = interleaved(
            dict(stations), rounds=options.rounds, soak=options.soak, window=options.window,
            watch=Turns(), on_turn=run.sampler.turn,
        )  # fmt: skip
    for station in stations.values():
        station.ask("close")
    first = next(iter(times.values()))
    ratios = {checkout: first.median / timing.median for checkout, timing in times.items()}
    for checkout, timing in times.items():
        answer = found[checkout]
        run.add(
            answer["row"], "tawa", timing, checkout=checkout, commit=checkout,
            ratio=round(ratios[checkout], 4), flops=answer["flops"], bytes=answer["bytes"],
            error={"relative_frobenius": errors[checkout],
                   "reference": "float64" if answer["exact"] else next(iter(found))},
            **run.sampler.readings(checkout),
        )  # fmt: skip
    print(line(name, times, ratios), flush=True)
    return ratios


def line(name: str, times: Mapping[str, Timing], ratios: Mapping[str, float]) -> str:
    """A case's times in microseconds, and ratios."""
    shown = (f"{times[c].median * 1e3:.1f} us" + f" {r:.3f}x" * (i > 0)
             for i, (c, r) in enumerate(ratios.items()))  # fmt: skip
    return f"{name}: {', '.join(shown)}"


def compared(
    run: Any,
    checkouts: Sequence[Checkout],
    names: Sequence[str],
    clock: Clock,
    options: Any,
) -> tuple[dict[str, dict[str, float]], Left]:
    """Compile all cases, time those that every checkout has; ratios by case, and what is left."""
    left, ratios = Left(), dict[str, dict[str, float]]()
    compiled(checkouts, names, options.jobs, clock, left)
    print(f"compiled, {clock.left:.0f} s are left", flush=True)
    stations = {checkout.name: Station(checkout, clock) for checkout in checkouts}
    for name in names:
        if name in left:
            continue
        if clock.left < ENOUGH:
            left.add(name, "all", "no time was left")
            continue
        try:
            ratios[name] = timed(run, name, stations, left, options)
        except Problem as problem:
            left.add(name, problem.whose, problem)
    for station in stations.values():
        station.end()
    for name, why in left.why.items():
        for checkout, text in why.items():
            run.add({"kernel": name}, "tawa", None, checkout=checkout, error_text=text)
    return {name: found for name, found in ratios.items() if found}, left


def summary(ratios: Mapping[str, Mapping[str, float]], left: Left) -> str:
    """For each checkout but the first: the mean ratio, the least and the most, and what differs."""
    lines: list[str] = []
    later = list(next(iter(ratios.values()), ()))[1:]
    for checkout in later:
        found = {name: of[checkout] for name, of in ratios.items()}
        mean = math.exp(sum(map(math.log, found.values())) / len(found))
        low, high = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
        lines.append(
            f"{checkout}: {len(found)} cases, geometric mean {mean:.3f}x, "
            f"least {found[low]:.3f}x ({low}), most {found[high]:.3f}x ({high})"
        )
        beyond = {n: r for n, r in found.items() if abs(r - 1) > NOTICED}
        lines += [f"  {r:.3f}x {n}" for n, r in sorted(beyond.items(), key=lambda x: x[1])]
    for name, why in left.why.items():
        lines.append(f"left out: {name}: " + "; ".join(f"{c}: {text}" for c, text in why.items()))
    return "\n".join(lines)


def packed(commit: str) -> Path:
    """Write an archive of a commit's parts, to be taken along."""
    path = ROOT / "build" / "carry" / f"{commit}.tar.xz"
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(suffix=".tar") as plain:
        command = ["git", "-C", str(ROOT), "archive", "-o", plain.name, commit, *PARTS]
        subprocess.run(command, check=True)
        with tarfile.open(plain.name) as read, tarfile.open(path, "w:xz") as written:
            for member in read:
                written.addfile(member, read.extractfile(member) if member.isfile() else None)
    return path


def unpacked(place: Path, into: Path) -> tuple[str, Path]:
    """A checkout's name and folder; an archive is unpacked, and named like its file."""
    if place.is_dir():
        from rows import commit

        return (commit() if place.resolve() == ROOT else place.resolve().name), place.resolve()
    name = place.name.partition(".")[0]
    with tarfile.open(place) as archive:
        archive.extractall(into / name, filter="data")
    return name, into / name


def checkout(place: Path, into: Path, device: str) -> Checkout:
    """A checkout with a cache of its own."""
    name, folder = unpacked(place, into)
    path = os.pathsep.join(str(folder / part) for part in PARTS)
    old = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    others = [p for p in old if not Path(p, "tawa").is_dir()]
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join([path, *others]),
        "TAWA_CACHE_DIR": str(into / f"cache-{name}"), "TAWA_SOURCE": str(folder),
    }  # fmt: skip
    command = [sys.executable, str(WORKER), device]
    log = into / f"{name}.log"
    return Checkout(name, folder, lambda: Process(name, command, environment, log))


def chosen(only: str) -> list[str]:
    """The names of the cases that have one of some words in them."""
    from checkouts_cases import CASES

    return [name for name in CASES if any(word in name for word in only.split(","))]


def main() -> int:
    """Pack a commit, or compare checkouts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkouts", nargs="*", type=Path, help="folders or archives")
    parser.add_argument("--pack", metavar="COMMIT", help="write an archive of it, and no more")
    parser.add_argument("--only", default="", help="parts of cases' names, separated by commas")
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--jobs", type=int, default=max(2, (os.cpu_count() or 2) - 2))
    parser.add_argument("--seconds", type=float, default=140, help="when no case is begun any more")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--soak", type=float, default=0.3)
    parser.add_argument("--window", type=float, default=0.1)
    options = parser.parse_args()
    if options.pack:
        print(packed(options.pack))
        return 0
    if len(options.checkouts) < 2:
        parser.error("two checkouts are needed")
    from rows import Run

    clock = Clock(options.seconds)
    with tempfile.TemporaryDirectory() as folder:
        checkouts = [checkout(place, Path(folder), "cuda") for place in options.checkouts]
        if len({checkout.name for checkout in checkouts}) < len(checkouts):
            parser.error("two checkouts have one name: that of the folder, or of the archive")
        run = Run("checkouts", options.rows)
        ratios, left = compared(run, checkouts, chosen(options.only), clock, options)
    print(summary(ratios, left))
    return 0 if ratios else 1


if __name__ == "__main__":
    sys.exit(main())
