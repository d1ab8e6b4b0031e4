"""Builtin ops at the hopper level: constants, scalar functions, control flow.

Control flow moves fragments as the emitted C++ does: a loop-carried fragment is an array of its
own, set before the loop and overwritten at the end of an iteration, unless it already is the
yielded one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from tawa.base.numerics import Array, round_to, value_dtype
from tawa.hopper.dialect.machine import Steps
from tawa.hopper.dialect.types import FragType
from tawa.ir.elementwise import Map
from tawa.simulate.interpret.actor import HopperActor
from tawa.simulate.interpret.registers import Registers
from tawa.simulate.interpret.spinning import Change, Spinning


def _constant(m: HopperActor, op: arith.ConstantOp) -> None:
    value = op.value
    assert isinstance(value, IntegerAttr | FloatAttr)
    number = np.asarray(value.value.data)
    if isinstance(value, FloatAttr):
        m.bind(op.result, round_to(number, op.result.type))
    else:
        m.bind(op.result, number.astype(value_dtype(op.result.type)))


def _map(m: HopperActor, op: Map) -> None:
    if isinstance(op.result.type, FragType):
        m.new_fragment(op.result, op.evaluate(*(m.fragment(v) for v in op.arguments)))
    else:
        m.bind(op.result, op.evaluate(*(np.asarray(m.value(v)) for v in op.arguments)))


class _Move(NamedTuple):
    """Registers that are about to be overwritten."""

    registers: Registers
    data: Array


def _carry(m: HopperActor, names: Sequence[SSAValue], values: Sequence[SSAValue]) -> list[Any]:
    """Give block arguments values, fragments in registers of their own; returns those."""
    for name, value in zip(names, values, strict=True):
        if isinstance(value.type, FragType):
            m.new_fragment(name, m.fragment(value).copy())
        else:
            m.bind(name, m.value(value))
    return [m.values[name] for name in names]


def _move(m: HopperActor, carried: list[Any], values: Sequence[SSAValue]) -> list[Any]:
    """What the carried variables hold after taking `values` at once."""
    new: list[Any] = []
    for now, value in zip(carried, values, strict=True):
        if not isinstance(value.type, FragType) or m.registers(value) is now.registers:
            new.append(m.value(value))
        else:
            new.append(_Move(now.registers, m.fragment(value).copy()))
    return [_settle(m, value) for value in new]


def _settle(m: HopperActor, value: Any) -> Any:
    return m.assign(value.registers, value.data) if isinstance(value, _Move) else value


def _terminator(block: Block) -> Operation:
    assert block.last_op is not None
    return block.last_op


def _for(m: HopperActor, op: scf.ForOp) -> Steps:
    block = op.body.block
    index, *arguments = block.args
    lower, upper, step = (m.integer(v) for v in (op.lb, op.ub, op.step))
    carried = _carry(m, arguments, op.iter_args)
    dtype = value_dtype(index.type)
    m.loops.append((index.name_hint or "iteration", lower))
    for i in range(lower, upper, step):
        m.loops[-1] = (m.loops[-1][0], i)
        m.bind(index, np.asarray(i, dtype))
        for name, value in zip(arguments, carried, strict=True):
            m.bind(name, value)
        yield from m.block_ops(block)
        carried = _move(m, carried, _terminator(block).operands)
    m.loops.pop()
    for name, value in zip(op.results, carried, strict=True):
        m.bind(name, value)


def _if(m: HopperActor, op: scf.IfOp) -> Steps:
    region = op.true_region if bool(m.value(op.cond)) else op.false_region
    if region.blocks:
        yield from m.block_ops(region.block)
        _carry(m, op.results, _terminator(region.block).operands)


def _while(m: HopperActor, op: scf.WhileOp) -> Steps:
    before, after = op.before_region.block, op.after_region.block
    carried = _carry(m, before.args, op.arguments)
    m.loops.append(("iteration", 0))
    spinning = Spinning(op, m.block, m.machine.memory)
    while True:
        if all(isinstance(carried[n], np.ndarray | np.generic) for n in spinning.numbers):
            for wait in spinning.iteration(carried):
                if isinstance(wait, Change):
                    yield wait
        for name, value in zip(before.args, carried, strict=True):
            m.bind(name, value)
        yield from m.block_ops(before)
        condition, *passed = _terminator(before).operands
        _carry(m, op.results, passed)
        if not bool(m.value(condition)):
            break
        for name, value in zip(after.args, op.results, strict=True):
            m.bind(name, m.values[value])
        yield from m.block_ops(after)
        carried = _move(m, carried, _terminator(after).operands)
        m.loops[-1] = ("iteration", m.loops[-1][1] + 1)
    m.loops.pop()


def _nothing(_m: HopperActor, _op: Operation) -> None:
    """Terminators are executed by the op they end."""


BUILTIN: dict[type[Operation], Callable[..., Steps | None]] = {
    arith.ConstantOp: _constant,
    Map: _map,
    scf.ForOp: _for,
    scf.IfOp: _if,
    scf.WhileOp: _while,
    scf.YieldOp: _nothing,
    scf.ConditionOp: _nothing,
    func.ReturnOp: _nothing,
}
"""What each builtin op does; Hopper's own ops carry their meaning."""
