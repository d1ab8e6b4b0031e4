"""Which commit changed the code of which kernel.

    python scripts/blame_kernels.py FROM TO                 every commit between them, by halving

The kernels are those of `hash_kernels.py`, compared by their CUDA C++. A kernel whose text is the
same at both ends of a stretch of history is taken to be the same in between. What was hashed is
kept in `build/blame/`, one file a commit, so that the next question costs less.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "build" / "blame"

NEEDED = ("src", "tests/workloads", "examples")
"""Folders that a kernel is compiled from."""
APART = ("axon", "cli", "cuppl", "functional", "simulate", "tasks", "triton")
"""Folders of `src/tawa` that no kernel's text depends on."""

ABSENT = "absent"
"""Instead of a hash, where a commit has no such kernel."""


@dataclass(frozen=True)
class Stretch:
    """Commits of which the first and the last give a kernel different texts."""

    kernel: str
    first: int
    last: int


def git(*words: str) -> str:
    """What git says."""
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


def commits(start: str, end: str) -> list[str]:
    """The first commit, and those up to the last that may have changed a kernel."""
    apart = [f":(exclude)src/tawa/{name}" for name in APART]
    between = git("log", "--reverse", "--format=%H", f"{start}..{end}", "--", *NEEDED, *apart)
    return [git("rev-parse", start).strip(), *between.split()]


def kept(commit: str) -> dict[str, str]:
    """The hashes that are known of a commit."""
    path = KEPT / f"{commit[:12]}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def hashes(commit: str, kernels: list[str] | None, jobs: int) -> dict[str, str]:
    """A hash of each kernel's text at a commit; of all kernels, if none are named."""
    known = kept(commit)
    missing = None if kernels is None else [name for name in kernels if name not in known]
    if missing == [] or (missing is None and known.get("complete")):
        return known
    with tempfile.TemporaryDirectory(prefix="tawa-blame-") as name:
        folder = Path(name)
        archive = subprocess.run(
            ["git", "archive", commit, *NEEDED], cwd=ROOT, check=True, capture_output=True
        ).stdout
        subprocess.run(["tar", "x", "-C", name], input=archive, check=True)
        names, out = folder / "names.json", folder / "hashes.json"
        names.write_text(json.dumps(missing))
        command = [sys.executable, str(ROOT / "scripts" / "hash_kernels.py"), str(out), "--texts"]
        command += ["--named", str(names), "--jobs", str(jobs)]
        environment = {**os.environ, "TAWA_SOURCE": name}
        environment.pop("PYTHONPATH", None)
        subprocess.run(command, check=True, env=environment, stderr=subprocess.DEVNULL)
        found = {kernel: text for kernel, (text, _) in json.loads(out.read_text()).items()}
    known |= dict.fromkeys(missing or (), ABSENT) | found
    if missing is None:
        known["complete"] = "yes"
    KEPT.mkdir(parents=True, exist_ok=True)
    (KEPT / f"{commit[:12]}.json").write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    return known


def halves(history: list[str], stretches: list[Stretch], jobs: int) -> list[Stretch]:
    """Halve each stretch that is longer than one commit; the parts over which a text changes."""
    middles: dict[int, list[Stretch]] = defaultdict(list)
    done: list[Stretch] = []
    for stretch in stretches:
        if stretch.last - stretch.first == 1:
            done.append(stretch)
        else:
            middles[(stretch.first + stretch.last) // 2].append(stretch)
    for number, (middle, asked) in enumerate(sorted(middles.items()), 1):
        print(f"{number}/{len(middles)} {history[middle][:8]}: {len(asked)}", file=sys.stderr)
        here = hashes(history[middle], [stretch.kernel for stretch in asked], jobs)
        for stretch in asked:
            text = here[stretch.kernel]
            if kept(history[stretch.first])[stretch.kernel] != text:
                done.append(Stretch(stretch.kernel, stretch.first, middle))
            if kept(history[stretch.last])[stretch.kernel] != text:
                done.append(Stretch(stretch.kernel, middle, stretch.last))
    return done


def blame(start: str, end: str, jobs: int) -> tuple[dict[str, list[str]], int]:
    """For each commit that changed kernels, in order, their names; how many kernels there are."""
    history = commits(start, end)
    old, new = (hashes(commit, None, jobs) for commit in (history[0], history[-1]))
    both = sorted((set(old) & set(new)) - {"complete"})
    stretches = [Stretch(k, 0, len(history) - 1) for k in both if old[k] != new[k]]
    while any(stretch.last - stretch.first > 1 for stretch in stretches):
        stretches = halves(history, stretches, jobs)
    changed: dict[int, list[str]] = defaultdict(list)
    for stretch in stretches:
        changed[stretch.last].append(stretch.kernel)
    return {history[at]: sorted(changed[at]) for at in sorted(changed)}, len(both)


def grouped(kernels: list[str]) -> str:
    """Names by their group: `suite a, b; gemm c`."""
    groups: dict[str, list[str]] = defaultdict(list)
    for kernel in kernels:
        group, _, name = kernel.partition(" ")
        groups[group].append(name)
    return "; ".join(f"{group}: {', '.join(names)}" for group, names in groups.items())


def table(changed: dict[str, list[str]]) -> str:
    """A row for each commit: what it did, how many kernels it changed, and which."""
    rows = ["| commit | what it did | kernels | which |", "|---|---|---|---|"]
    for commit, kernels in changed.items():
        subject = git("log", "-1", "--format=%s", commit).strip().replace("|", "\\|")
        rows.append(f"| {commit[:8]} | {subject} | {len(kernels)} | {grouped(kernels)} |")
    return "\n".join(rows)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("start", metavar="FROM")
    parser.add_argument("end", metavar="TO")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    chosen = parser.parse_args()
    if shutil.which("git") is None:
        parser.error("git is not installed")
    changed, count = blame(chosen.start, chosen.end, chosen.jobs)
    names = {kernel for kernels in changed.values() for kernel in kernels}
    print(table(changed))
    print(f"\n{len(names)} of {count} kernels changed, by {len(changed)} commits.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
