"""Threads that a caller waits for, also when it is interrupted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

__all__ = ["run_together"]


def run_together(
    bodies: Sequence[Callable[[], None]], stop: Callable[[], None], stack: int
) -> None:
    """Run functions on a thread each, with native stacks of so many bytes, until all have ended.

    When the caller is interrupted, `stop` tells them, and they are waited for, since they use its
    memory. `Thread.join` does not do for that: once it was interrupted (Python 3.11), it returns.
    A thread that has not begun by then, since the interrupt came as it was started, never does.
    """
    ended = [threading.Event() for _ in bodies]
    begun, lock, stopped = set[int](), threading.Lock(), threading.Event()

    def run(index: int) -> None:
        with lock:
            if stopped.is_set():
                return
            begun.add(index)
        try:
            bodies[index]()
        finally:
            ended[index].set()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(bodies))]
    try:
        old = threading.stack_size(stack)
        try:
            for thread in threads:
                thread.start()
        finally:
            threading.stack_size(old)
        for event in ended:
            event.wait()
    except BaseException:
        stop()
        with lock:
            stopped.set()
        for index in begun:
            ended[index].wait()
        raise
    for thread in threads:
        thread.join()
