"""Which team, warp group and warp a role's text says that a thread belongs to."""

from __future__ import annotations

import re

import pytest
from xdsl.ir import Block, Region

from tawa.hopper.dialect.structure import Role
from tawa.hopper.dialect.text import Writer


class Head(Writer):
    """Writes what comes before a role's ops."""

    def region(self, region: Region) -> None:
        """Nothing."""


def places(role: Role, index: int) -> dict[str, int]:
    """The numbers that the text of a role computes in one thread."""
    w = Head()
    role.cuda(w)
    found = {"threadIdx_x": index, "warp_id": index // 32, "lane": index % 32}
    for line in w.lines:
        if line.lstrip().startswith("const int "):
            for name, text in re.findall(r"(\w+) = ([^,;]+)", line):
                plain = text.replace("threadIdx.x", "threadIdx_x").replace("/", "//")
                found[name] = eval(plain, {"warp_uniform": int}, found)
    return found


@pytest.mark.parametrize(
    ("first", "warps", "teams", "whole"),
    [(0, 4, 1, True), (0, 8, 1, True), (4, 4, 2, False), (4, 8, 2, False), (0, 12, 1, False)],
)
def test_every_thread_knows_its_place(first: int, warps: int, teams: int, whole: bool):
    role = Role("math", first, warps, teams, Region(Block()), whole=whole)
    for index in range(32 * first, 32 * (first + warps * teams), 7):
        found = places(role, index)
        team, warp = divmod(index // 32 - first, warps)
        assert (found["team"], found["warp"]) == (team, warp)
        assert found["thread"] == 32 * warp + index % 32
        assert found["warp_group"] == warp // 4
