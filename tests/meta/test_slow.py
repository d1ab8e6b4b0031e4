"""The list of slow tests names tests that are there, and CI runs them."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "scripts"))
from slow_tests import BUDGET, LIST, LONG, read, slow  # noqa: E402


def test_each_name_is_a_test():
    texts = {path: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    missing = []
    for name in read([LIST]):
        file, _, test = name.partition("::")
        function = test.partition("[")[0].rpartition("::")[2]
        if not re.search(rf"\bdef {function}\(", texts.get(ROOT / file, "")):
            missing.append(name)
    assert missing == []


def test_ci_leaves_nothing_out():
    targets = dict(re.findall(r"^(test\S*):.*\n\t(.*)", (ROOT / "Makefile").read_text(), re.M))
    assert "not slow" in targets["test"]
    assert "slow" not in targets["test-all"]
    assert "exec make test-all" in (ROOT / ".ci" / "run").read_text()


def test_the_longest_are_left_out_and_a_case_of_each_stays():
    times = {"a[1]": BUDGET, "a[2]": 1.0, "b": LONG + 1, "c": LONG - 1, "d[1]": 2.0, "d[2]": 3.0}
    assert slow(times) == ["a[1]"]
    assert slow({**times, "e": BUDGET}) == ["a[1]", "e"]
