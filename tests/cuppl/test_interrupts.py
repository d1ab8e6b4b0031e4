"""After an interrupt a run leaves the rest: nothing goes on in the background, and Python can end."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

import pytest

WALK = "def main () = range_fold (fn a i -> sample (normal a 1)) 0.0 300"
"""What is asked for below takes much longer than half a second."""
CALLS = {
    "importance": "importance(10_000_000)",
    "smc": "smc(1_000_000)",
    "mh": "mh(10_000_000)",
    "nuts": "nuts(100_000)",
    "pooled": "nuts(100_000, pooled=True)",
}


@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_ends_the_threads(name: str) -> None:
    source = WALK.replace("sample", "factor 0.0; sample") if name == "smc" else WALK
    script = textwrap.dedent(f"""
        import os, signal, threading
        from tawa import cuppl
        signal.signal(signal.SIGINT, signal.default_int_handler)  # shells may have it ignored
        model = cuppl.model({source!r})
        model.{CALLS[name].split("(")[0]}(4)
        timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        try:
            model.{CALLS[name]}
        except KeyboardInterrupt:
            for thread in threading.enumerate():
                if thread is not threading.main_thread():
                    thread.join()
            print("interrupted")
    """)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=100
    )
    assert done.stdout.split() == ["interrupted"], done.stderr
    assert done.returncode in (0, -signal.SIGINT)
