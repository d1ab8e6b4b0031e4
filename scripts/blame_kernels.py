"""Which commit changed the code of which kernel.

    python scripts/blame_kernels.py FROM TO                 every commit between them, by halving
    python scripts/blame_kernels.py FROM TO --named FILE    of some kernels: JSON, a list of names
    python scripts/blame_kernels.py FROM TO --kept          what is known, nothing is compiled
    python scripts/blame_kernels.py FROM TO --extend FILE   add what happened since, of its kernels

The kernels are those of `hash_kernels.py`, compared by their CUDA C++. A kernel whose text is the
same at both ends of a stretch of history is taken to be the same in between. Commits that change
no code, only comments and documentation, are passed over. What was hashed is kept in
`build/blame/`, one file a commit, so that the next question costs less.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "build" / "blame"

NEEDED = ("src", "tests/workloads", "examples")
"""Folders that a kernel is compiled from."""
APART = ("axon", "cli", "cuppl", "functional", "simulate", "tasks", "triton")
"""Folders of `src/tawa` that no kernel's text depends on."""

LOG = "docs/performance-log.md"

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
    paths = [*NEEDED, *(f":(exclude)src/tawa/{name}" for name in APART)]
    between = git("log", "--reverse", "--format=%H", f"{start}..{end}", "--", *paths).split()
    return [git("rev-parse", start).strip(), *(c for c in between if changes_code(c, paths))]


def changes_code(commit: str, paths: list[str]) -> bool:
    """Whether a commit changes more in these paths than comments and documentation."""
    for line in git(
        "diff", "--name-status", "--no-renames", f"{commit}^", commit, "--", *paths
    ).splitlines():
        status, _, path = line.partition("\t")
        if status != "M" or not path.endswith(".py"):
            return True
        before, after = (code(git("show", f"{at}:{path}")) for at in (f"{commit}^", commit))
        if before != after:
            return True
    return False


def code(text: str) -> str:
    """What is left of a module without comments and documentation."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            body[:] = [s for s in body if not _is_text(s)]
    return ast.dump(tree)


def _is_text(statement: ast.stmt) -> bool:
    """Whether a statement is a string alone, which documents what is beside it."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def kept(commit: str) -> dict[str, str]:
    """The hashes that are known of a commit."""
    path = KEPT / f"{commit[:12]}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def checked_out(commit: str, tree: Path) -> None:
    """Let a folder have a commit's files; what did not change keeps its compiled form."""
    tree.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GIT_INDEX_FILE": str(tree.parent / "index")}
    command = ["git", "--work-tree", str(tree), "read-tree", "--reset", "-u", commit]
    subprocess.run(command, cwd=ROOT, check=True, env=environment)


def hashes(commit: str, kernels: list[str] | None, jobs: int) -> dict[str, str]:
    """A hash of each kernel's text at a commit; of all kernels, if none are named."""
    known = kept(commit)
    missing = None if kernels is None else [name for name in kernels if name not in known]
    if missing == [] or (missing is None and known.get("complete")):
        return known
    tree = KEPT / "tree"
    checked_out(commit, tree)
    names, out = KEPT / "asked.json", KEPT / "found.json"
    names.write_text(json.dumps(missing))
    command = [sys.executable, str(ROOT / "scripts" / "hash_kernels.py"), str(out), "--texts"]
    command += ["--named", str(names), "--jobs", str(jobs)]
    environment = {**os.environ, "TAWA_SOURCE": str(tree)}
    environment.pop("PYTHONPATH", None)
    subprocess.run(command, check=True, env=environment, stderr=subprocess.DEVNULL)
    found = {kernel: text for kernel, (text, _) in json.loads(out.read_text()).items()}
    known |= dict.fromkeys(missing or (), ABSENT) | found
    if missing is None:
        known["complete"] = "yes"
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


def blame(history: list[str], kernels: list[str] | None, jobs: int) -> list[Stretch]:
    """The commits, each a stretch of one, that change these kernels; all kernels, if none named."""
    old, new = (hashes(commit, kernels, jobs) for commit in (history[0], history[-1]))
    stretches = [Stretch(k, 0, len(history) - 1) for k in in_both(old, new) if old[k] != new[k]]
    while any(stretch.last - stretch.first > 1 for stretch in stretches):
        stretches = halves(history, stretches, jobs)
    return stretches


def in_both(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """Kernels that two commits have."""
    there = (n for n in set(old) & set(new) if ABSENT not in (old[n], new[n]))
    return sorted(n for n in there if n != "complete")


def blamed_before(history: list[str], kernels: list[str] | None) -> list[Stretch]:
    """What is known of these kernels by the hashes that are kept, in stretches of any length."""
    known = {at: found for at, commit in enumerate(history) if (found := kept(commit))}
    stretches: list[Stretch] = []
    for kernel in kernels or in_both(known[0], known[len(history) - 1]):
        texts = [(at, found[kernel]) for at, found in known.items() if kernel in found]
        stretches += [Stretch(kernel, i, j) for (i, a), (j, b) in pairwise(texts) if a != b]
    return stretches


def rows(history: list[str], stretches: list[Stretch]) -> list[dict[str, Any]]:
    """For each stretch, in order: its commits with what they did, and the kernels it changed."""
    changed: dict[tuple[int, int], list[str]] = defaultdict(list)
    for stretch in stretches:
        changed[stretch.first, stretch.last].append(stretch.kernel)
    return [
        {
            "commits": {c[:8]: subject(c) for c in history[first + 1 : last + 1]},
            "logged": {c[:8]: logged(c) for c in history[first + 1 : last + 1]},
            "kernels": sorted(changed[first, last]),
        }
        for first, last in sorted(changed)
    ]


def extended(before: dict[str, Any], end: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    """What is known up to a commit, with what happened since."""
    return {**before, "to": end, "changes": [*before["changes"], *found]}


def subject(commit: str) -> str:
    """What a commit says that it does."""
    return git("log", "-1", "--format=%s", commit).strip()


def logged(commit: str) -> list[str]:
    """The headings of the log of what was tried under which a commit writes."""
    change = git("show", "-U0", "--format=", commit, "--", LOG)
    hunks = re.findall(r"^@@ -\S+ \+(\d+),?(\d*) @@", change, re.MULTILINE)
    lines = git("show", f"{commit}:{LOG}").splitlines() if hunks else []
    found: dict[str, None] = {}
    for first, count in hunks:
        start, end = int(first) - 1, int(first) - 1 + int(count or 1)
        inside = [line for line in lines[start:end] if line.startswith("## ")]
        above = [line for line in lines[:start] if line.startswith("## ")]
        found.update(dict.fromkeys(line.removeprefix("## ") for line in inside or above[-1:]))
    return list(found)


def grouped(kernels: list[str]) -> str:
    """Names by their group: `suite a, b; gemm c`."""
    groups: dict[str, list[str]] = defaultdict(list)
    for kernel in kernels:
        group, _, name = kernel.partition(" ")
        groups[group].append(name)
    return "; ".join(f"{group}: {', '.join(names)}" for group, names in groups.items())


def table(found: list[dict[str, Any]]) -> str:
    """A row for each commit: what it did, how many kernels it changed, and which."""
    lines = ["| commit | what it did | kernels | which |", "|---|---|---|---|"]
    for row in found:
        names, told = (" or ".join(words) for words in zip(*row["commits"].items(), strict=True))
        kernels = row["kernels"]
        lines.append(f"| {names} | {escaped(told)} | {len(kernels)} | {grouped(kernels)} |")
    return "\n".join(lines)


def escaped(text: str) -> str:
    """A text in a cell of a table."""
    return text.replace("|", "\\|")


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("start", metavar="FROM")
    parser.add_argument("end", metavar="TO")
    parser.add_argument("--named", type=Path, help="JSON: a list of whole names")
    parser.add_argument("--kept", action="store_true", help="compile nothing, tell what is known")
    parser.add_argument("--json", type=Path, help="write there what the table is made of")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--extend", type=Path, help="JSON of --json that ends with FROM")
    chosen = parser.parse_args()
    if shutil.which("git") is None:
        parser.error("git is not installed")
    named = json.loads(chosen.named.read_text()) if chosen.named else None
    before = json.loads(chosen.extend.read_text()) if chosen.extend else None
    if before is not None:
        if before["to"] != chosen.start:
            parser.error(f"{chosen.extend} ends with {before['to']}")
        named = sorted({kernel for row in before["changes"] for kernel in row["kernels"]})
    history = commits(chosen.start, chosen.end)
    stretches = blamed_before(history, named) if chosen.kept else blame(history, named, chosen.jobs)
    found = rows(history, stretches)
    if chosen.json:
        count = len(named or in_both(kept(history[0]), kept(history[-1])))
        whole = {"from": chosen.start, "to": chosen.end, "kernels": count, "changes": found}
        chosen.json.write_text(json.dumps(whole, indent=1) + "\n")
    if before is not None:
        whole = extended(before, chosen.end, found)
        chosen.extend.write_text(json.dumps(whole, indent=1) + "\n")
    print(table(found))
    print(f"\n{len({s.kernel for s in stretches})} kernels changed, in {len(found)} places.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
