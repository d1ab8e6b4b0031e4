"""Tasks that can be called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from tawa.base.user_frames import entries, entry, users_place
from tawa.tasks.interpreter import interpret
from tawa.tasks.language.arguments import in_order_of
from tawa.tasks.language.defaults import Resolved
from tawa.tasks.language.errors import BadMapping, NotInTask, SignatureMismatch
from tawa.tasks.language.mapping import Mapping
from tawa.tasks.language.privileges import Privilege
from tawa.tasks.language.running import ACTIVE
from tawa.tasks.language.task import Task, declared
from tawa.tasks.node_calls import NodeCalls, NodeRun
from tawa.tasks.plans import Plans, Same
from tawa.tasks.program import CompiledTasks, program_for
from tawa.tasks.watching import WATCHER


@entries
class RunnableTask(Task):
    """A task as users have it: `gemm(c, a, b)` runs it."""

    def __call__(
        self, *args: Any, mapping: Mapping | None = None, **named: Any
    ) -> CompiledTasks | NodeRun:
        """Run the task on arrays: on the device where they lie, NumPy's in the simulator.

        Arrays are written in place; they are given by position or by name. `mapping` says where and
        how; what it does not say, defaults do. Returns what ran. Under a mapping for several
        devices, arrays may be `Sharded`.
        """
        if named:
            args = in_order_of(self, args, named, users_place())
        self._check_call(mapping)
        watcher = WATCHER.get()
        if watcher is not None:
            mapping = watcher(self, args, mapping)
        if mapping is not None and mapping.on_node:
            return self.node_calls.call(args, mapping)
        return self.plans.call(args, mapping)

    def _check_call(self, mapping: Any) -> None:
        """Raises `BadMapping`, or `NotInTask` in a task: it launches others."""
        if mapping is not None and not isinstance(mapping, Mapping):
            raise BadMapping(
                f"`{self.name}` is called under a mapping that is none",
                span=users_place(),
                expected="mapping=Mapping(Instance(...), ...)",
                found=f"a {type(mapping).__name__}",
            )
        if ACTIVE.get() is not None:
            raise NotInTask(
                f"`{self.name}` is called inside of a task",
                span=users_place(),
                expected=f"a launch: launch({self.name}, ...)",
                found=f"{self.name}(...)",
            )

    def call_on_device(
        self, task: Task, entry: Resolved
    ) -> Callable[[Sequence[Any], Mapping], None]:
        """What runs an instance that a node launches, on arrays of one device that lie alike."""
        key = task, entry.path, entry.variant
        if key not in self.node_plans:
            self.node_plans[key] = Plans(task, entry)
        return Same(self.node_plans[key])

    @cached_property
    def node_calls(self) -> NodeCalls:
        """What calls on several devices do again."""
        return NodeCalls(self, self.call_on_device)

    @cached_property
    def node_plans(self) -> dict[Any, Plans]:
        """What launches of a node have done."""
        return {}

    @cached_property
    def plans(self) -> Plans:
        """What calls do again."""
        return Plans(self)

    def compile(self, *args: Any, mapping: Mapping | None = None, **named: Any) -> CompiledTasks:
        """What a call with these arguments runs, to look at: its stages, kernels and events.

        Raises whatever is wrong with it, `BadMapping` for a mapping for several devices.
        """
        if named:
            args = in_order_of(self, args, named, users_place())
        if mapping is not None and mapping.on_node:
            raise BadMapping(
                f"a call of `{self.name}` on several devices is no program of one device",
                span=users_place(),
                expected="a mapping without the processor 'node'",
                found=", ".join(
                    i.name for i in mapping.instances.values() if i.processor == "node"
                ),
                hint="call the task, or look at the call by `tawa tasks show` and `check`",
            )
        return program_for(self, args, mapping)

    def interpret(self, *args: Any, mapping: Mapping | None = None, **named: Any) -> None:
        """Run the task on NumPy arrays, one launch after the other: the program's meaning."""
        if named:
            args = in_order_of(self, args, named, users_place())
        interpret(self, args, mapping)


@entry
def task(
    *function: Callable[..., Any], **privileges: Privilege
) -> Callable[[Callable[..., Any]], RunnableTask]:
    """Declare a task: `privileges` has one for each parameter that is a tensor.

    Other parameters are numbers. The function that this decorates has no body but a docstring.
    Raises `SignatureMismatch`, `PrivilegeViolation`.
    """
    if function:
        raise SignatureMismatch(
            f"`{getattr(function[0], '__name__', function[0])}` is declared without privileges",
            span=users_place(),
            expected="a privilege for each tensor: @task(y=WRITE, x=READ)",
            found="@task",
        )

    def declare(fn: Callable[..., Any]) -> RunnableTask:
        return declared(RunnableTask, fn, privileges)

    return declare
