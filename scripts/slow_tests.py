"""Which tests `make test` leaves out: those that take longest, until the others fit its time.

    pytest -n auto --dist worksteal --processor-seconds build/times.txt
    python scripts/slow_tests.py build/times.txt [those of other runs]

What tests of a file share is noted for the one that came first. Where that one is left out, another
comes first: notes of a run of the quick tests alone, given as well, show it.

The list, tests/slow.txt, has a line for each case; `make test-all`, which CI
runs, runs them all. One case of a test that is left out stays: the quickest of those that do
something, so that no test is left out as a whole unless every case of it takes long.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

LIST = Path(__file__).resolve().parents[1] / "tests" / "slow.txt"
BUDGET = 470.0
"""Processor seconds for the quick tests, noted on a machine without other work: eight minutes of
two cores, less installing and linting (110 s), two processes that collect (20 s each), and what no
test is charged with."""
LONG = 4.0
"""Seconds of a test that is left out even if it is the only one of its kind."""

HEAD = """\
# Tests that `make test` leaves out and `make test-all` runs, with the processor seconds they took.
# Written by scripts/slow_tests.py.
"""


def read(files: list[Path]) -> dict[str, float]:
    """Seconds by test, the most that any run noted."""
    found: dict[str, float] = {}
    for file in files:
        for line in file.read_text().splitlines():
            if line.startswith("#"):
                continue
            seconds, name = line.split(maxsplit=1)
            found[name] = max(found.get(name, 0.0), float(seconds))
    return found


def kept(times: dict[str, float]) -> set[str]:
    """One case of each test: the quickest, unless it is long too."""
    cases: defaultdict[str, list[str]] = defaultdict(list)
    for name in times:
        cases[name.partition("[")[0]].append(name)
    quickest = (min(names, key=lambda name: times[name]) for names in cases.values())
    return {name for name in quickest if times[name] <= LONG}


def slow(times: dict[str, float]) -> list[str]:
    """The longest tests, so many that the others fit the budget; by name."""
    left, found, stay = sum(times.values()), list[str](), kept(times)
    for name in sorted(times.keys() - stay, key=lambda name: -times[name]):
        if left <= BUDGET:
            break
        found.append(name)
        left -= times[name]
    return sorted(found)


def main() -> None:
    """Write the list."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("times", type=Path, nargs="+", help="what tests noted")
    times = read(parser.parse_args().times)
    found = slow(times)
    LIST.write_text(HEAD + "".join(f"{times[name]:.1f} {name}\n" for name in found))
    taken = sum(times[name] for name in found)
    print(f"{len(found)} of {len(times)} tests, {taken:.0f} of {sum(times.values()):.0f} s")


if __name__ == "__main__":
    main()
