"""Registers for recorders: what roles of one thread do not need goes to those that compute."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr

from tawa.hopper.dialect.core import number
from tawa.hopper.dialect.structure import Role
from tawa.machine.chips import DEFAULT, SM_90A, Chip


def shift_registers(kernel: func.FuncOp, roles: Sequence[Role], target: Chip = DEFAULT) -> None:
    """Leave roles of one thread the fewest registers, and give the others what that frees."""
    attribute = kernel.attributes["hopper.threads"]
    assert isinstance(attribute, IntegerAttr)
    threads, step = attribute.value.data, target.register_step
    counts = {role: role.registers.value.data for role in roles if role.registers is not None}
    counts |= {role: target.min_role_registers for role in counts if role.single}
    takers = [role for role in counts if not role.single]
    free = min(target.max_registers, target.registers // threads) // step * step * threads
    free -= sum(count * threads_of(role) for role, count in counts.items())
    asked = step * sum(map(threads_of, takers))
    if not takers or len(counts) < len(roles):
        return
    more = min(free // asked * step, target.max_registers // step * step - max(counts.values()))
    for role, count in counts.items():
        role.registers = number(count if role.single else count + more)


def threads_of(role: Role) -> int:
    """Threads that a role's registers are set for: whole warp groups."""
    return (
        -(-role.warps.value.data * role.teams.value.data // SM_90A.group_warps)
        * SM_90A.group_threads
    )
