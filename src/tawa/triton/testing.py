"""`triton.testing`: timing, comparing, and tables of measurements."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tawa.runtime import driver
from tawa.runtime.streams import current_stream
from tawa.runtime.timing import Stopwatch, Timing


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Milliseconds of `fn`: their mean, median, min, max, all of them, or quantiles.

    `warmup` and `rep` are the milliseconds that it runs unmeasured and measured.
    """
    device = driver.current_device() or 0
    watch = Stopwatch(device, current_stream("torch", device)())
    if grad_to_none is not None:
        tensors = grad_to_none

        def forget() -> None:
            for tensor in tensors:
                tensor.grad = None

        watch.before = forget
    watch.times_for(fn, warmup / 1e3)
    return summary_of(watch.times_for(fn, rep / 1e3), quantiles, return_mode)


def do_bench_cudagraph(
    fn: Callable[[], Any],
    rep: float = 20,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """As `do_bench`, whose times hold no launches' overhead either: events lie on the device."""
    return do_bench(fn, rep, rep, grad_to_none, quantiles, return_mode)


def get_dram_gbps(device: int | None = None) -> float:
    """Gigabytes a second of the device's memory."""
    return driver.chip(driver.current_device() or 0 if device is None else device).memory_gbs


def summary_of(times: Sequence[float], quantiles: Sequence[float] | None, mode: str) -> Any:
    """Times as `do_bench` gives them."""
    if quantiles is not None:
        found = [_quantile(sorted(times), q) for q in quantiles]
        return found[0] if len(found) == 1 else found
    if mode == "all":
        return list(times)
    if mode == "median":
        return Timing(tuple(times)).median
    return {"mean": statistics.fmean, "min": min, "max": max}[mode](times)


def _quantile(times: Sequence[float], q: float) -> float:
    """Between neighbours, linearly."""
    place = q * (len(times) - 1)
    low = int(place)
    high = min(low + 1, len(times) - 1)
    return times[low] + (times[high] - times[low]) * (place - low)


def assert_close(
    x: Any, y: Any, atol: float | None = None, rtol: float | None = None, err_msg: str = ""
) -> None:
    """Raise AssertionError unless arrays agree, to 1e-2 absolutely and relatively by default."""
    import numpy as np

    left, right = (_as_array(value) for value in (x, y))
    absolute, relative = (1e-2 if value is None else value for value in (atol, rtol))
    np.testing.assert_allclose(left, right, rtol=relative, atol=absolute, err_msg=err_msg)


def _as_array(value: Any) -> Any:
    import numpy as np

    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.float() if value.dtype.is_floating_point else value).numpy()
    return np.asarray(value)


@dataclass
class Benchmark:
    """A plot: `x_names` take the values `x_vals`, and `line_arg` one of `line_vals` for a line."""

    x_names: list[str]
    x_vals: list[Any]
    line_arg: str
    line_vals: list[Any]
    line_names: list[str]
    plot_name: str
    args: dict[str, Any]
    xlabel: str = ""
    ylabel: str = ""
    x_log: bool = False
    y_log: bool = False
    styles: list[tuple[str, str]] | None = field(default=None)


class Mark:
    """A function that measures, with the plots that it is to be called for."""

    def __init__(self, fn: Callable[..., Any], benchmarks: Benchmark | list[Benchmark]) -> None:
        self.fn = fn
        self.benchmarks = benchmarks

    def run(
        self,
        show_plots: bool = False,
        print_data: bool = False,
        save_path: str = "",
        return_df: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Measure all plots: as tables of pandas that are printed, stored or given back.

        `show_plots` draws them too, if Matplotlib is installed.
        """
        single = isinstance(self.benchmarks, Benchmark)
        plots = [self.benchmarks] if isinstance(self.benchmarks, Benchmark) else self.benchmarks
        tables = [self._table(plot, **kwargs) for plot in plots]
        for plot, table in zip(plots, tables, strict=True):
            if print_data:
                print(f"{plot.plot_name}:\n{table}")
            if save_path:
                folder = Path(save_path)
                folder.mkdir(parents=True, exist_ok=True)
                table.to_csv(folder / f"{plot.plot_name}.csv", index=False)
            if show_plots:
                _draw(plot, table)
        if not return_df:
            return None
        return tables[0] if single else tables

    def _table(self, plot: Benchmark, **kwargs: Any) -> Any:
        import importlib

        rows: list[list[Any]] = []
        for x in plot.x_vals:
            several = isinstance(x, list | tuple)
            point: list[Any] = list(cast("list[Any]", x)) if several else [x] * len(plot.x_names)
            named = dict(zip(plot.x_names, point, strict=True))
            measured = (
                self.fn(**named, **{plot.line_arg: line}, **plot.args, **kwargs)
                for line in plot.line_vals
            )
            rows.append([*named.values(), *(_median(value) for value in measured)])
        columns = [*plot.x_names, *plot.line_names]
        return importlib.import_module("pandas").DataFrame(rows, columns=columns)


def _median(measured: Any) -> Any:
    """The first of what a measurement gives: the median, if it gives quantiles too."""
    several = isinstance(measured, tuple | list)
    return cast("list[Any]", measured)[0] if several else measured


def _draw(plot: Benchmark, table: Any) -> None:
    import importlib

    axes = table.plot(x=plot.x_names[0], y=plot.line_names, logx=plot.x_log, logy=plot.y_log)
    axes.set_xlabel(plot.xlabel or plot.x_names[0])
    axes.set_ylabel(plot.ylabel)
    importlib.import_module("matplotlib.pyplot").show()


def perf_report(benchmarks: Benchmark | list[Benchmark]) -> Callable[[Callable[..., Any]], Mark]:
    """A decorator: the function measures one point of one line of `benchmarks`."""
    return lambda fn: Mark(fn, benchmarks)
