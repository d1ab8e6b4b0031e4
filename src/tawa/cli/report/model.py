"""All that a report says about one kernel and, if there is one, one launch of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from tawa.base.options import Options
from tawa.cli.report.code import Pane, panes
from tawa.cli.report.launch import Launch
from tawa.cli.report.listing import Place
from tawa.cli.report.timeline import Timeline, timeline
from tawa.cli.report.work import Bounds, Work, bounds, launch_work
from tawa.driver.compiled import Compiled
from tawa.driver.inspection.occupancy import Occupancy, occupancy
from tawa.driver.inspection.products import products_in_flight
from tawa.driver.prediction.launches import predict
from tawa.simulate import LaunchPrediction

if TYPE_CHECKING:
    from tawa.machine.chips import Chip


@dataclass(frozen=True)
class Predicted:
    """What is predicted of a launch."""

    prediction: LaunchPrediction
    work: Work
    bounds: Bounds


@dataclass(frozen=True)
class Report:
    """A compiled kernel with all that is shown of it; times only for a launch."""

    compiled: Compiled
    file: str
    types: Mapping[str, str]
    constants: Mapping[str, Any]
    options: Options
    target: Chip
    panes: tuple[Pane, ...]
    occupancy: Occupancy
    in_flight: int | None
    """P: matrix instructions left in flight in the loops; None without matrix products."""
    launch: Launch | None
    predicted: Predicted | None
    timelines: tuple[Timeline, ...]


def build(
    compiled: Compiled,
    begin: Place,
    request: Any,
    launch: Launch | None = None,
    *,
    clock_ghz: float | None = None,
    measured: Timeline | None = None,
) -> Report:
    """The report of a compiled kernel.

    `begin` is the file and line where the kernel begins. `request` has the types, constants and
    options that it was compiled for, `launch` what to predict, at `clock_ghz` (the target's own by
    default). A `measured` timeline is shown below the predicted one.
    """
    target = request.options.whole_machine
    file = Path(begin[0]).name
    listings = panes(compiled, begin, file, target)
    module = compiled.module("hopper")
    usage = compiled.assembled.function(compiled.spec.entry)
    timelines: list[Timeline] = []
    predicted = None
    if launch is not None:
        predicted, found = _predict(compiled, module, launch, target, clock_ghz)
        timelines.append(found)
    if measured is not None:
        timelines.append(measured)
    return Report(
        compiled,
        file,
        request.types,
        request.constants,
        request.options,
        target,
        tuple(listings),
        occupancy(module, usage, target),
        products_in_flight(module),
        launch,
        predicted,
        tuple(timelines),
    )


def _predict(
    compiled: Compiled, module: ModuleOp, launch: Launch, target: Chip, clock: float | None
) -> tuple[Predicted, Timeline]:
    prediction, shown = predicted_timeline(compiled, launch, clock, module, target)
    arguments = [launch.arguments[name] for name in compiled.spec.arguments]
    work = launch_work(module, launch.grid, arguments, target)
    return Predicted(prediction, work, bounds(prediction, work, target)), shown


def predicted_timeline(
    compiled: Compiled,
    launch: Launch,
    clock_ghz: float | None = None,
    module: ModuleOp | None = None,
    target: Chip | None = None,
) -> tuple[LaunchPrediction, Timeline]:
    """A launch's prediction, and the timeline of its first CTA; `module` is the hopper level."""
    module, target = module or compiled.module("hopper"), target or Options().whole_machine
    arguments = [launch.arguments[name] for name in compiled.spec.arguments]
    prediction = predict(
        compiled, launch.grid, arguments, clock_ghz, target, module, timeline=True, accounts=True
    )
    first, clock = prediction.first, prediction.clock_ghz
    assert first is not None
    numbers = {op: number for number, op in enumerate(module.walk())}
    return prediction, timeline("predicted", first.timeline, clock, numbers, first.left_out)
