"""The control block that all threads of a run of SMC share, and what is written there."""

from __future__ import annotations

WAITING = 0  # threads at the barrier
GENERATION = 1
STEP = 2
PARTICLES = 3
THREADS = 4
SEED_LOW = 5
SEED_HIGH = 6
LIMIT = 7  # stack words
HEAP_NEXT = 8
HEAP_END = 9
CHUNK = 10  # bytes
FUEL = 11
DEPTH_LIMIT = 12
FAILED_STATUS = 13
FAILED_SITE = 14
FAILED_PARTICLE = 15
THRESHOLD = 16  # bits of a float: resample below this effective sample size
LOG_Z = 17  # bits of a float
RESAMPLED = 18
STATE = 19  # address
OTHER = 20  # address
INPUTS = 21  # address
TURNS = 22  # steps until the threads come back to the caller
SCALE = 23  # bits of a float
STREAM = 24
RETAINED = 25  # 1: slot 0 replays a given particle and keeps it (conditional SMC)
HEADER = 26  # state words before the stack
PATH = 27  # address of (key, key, particle) of the kept particle at each step
WIDTH = 28  # words of a particle
COPYING = 29  # 1: the particles are still in OTHER, each at its parent's place
PORTION = 30  # particles that a thread takes at a time
SLEEPERS = 57  # threads that wait without running
STOPPED = 58  # 1: the caller was interrupted, and threads leave the rest
INTERRUPTED = 98
"""The status of a thread that left particles because of that."""
CONTROL_WORDS = 64  # and eight more for each thread: the first says how many particles were taken
SPINS = 3000
"""Some 50 us: on a machine that is not busy, a step's last portion takes less."""

OWN_STATUS = 3  # words of `part`, of a thread: its first failure, where, and of which particle
OWN_SITE = 6
OWN_PARTICLE = 7

RUNNING = 0
FINISHED = 1
NEED_ROOM = 2
FAILED = 3
DEAD = 4

TOP_BITS = 34
TOP_MASK = (1 << TOP_BITS) - 1
ANCESTOR_MASK = -(1 << TOP_BITS)
MOST_PARTICLES = (1 << (64 - TOP_BITS)) - 1
"""Of one run: an ancestor's number has to fit above the stack's top."""
FINISHED_FLAG = -(1 << 32)
DRAW_MASK = (1 << 32) - 1
HEAP_FULL = 1
STACK_FULL = 3
REJECTED = 14
NEGLIGIBLE = -700.0
"""The exponential of this, scaled, is 0 as an integer."""

PATIENCE = 1  # words of a thread's eight behind the control block, after how many it has taken
STACKS = 2  # where eight particles' stacks lie side by side
ROOM = 3  # words of a stack there
SPARE_ROW = 4  # a row for the words of particles that run alone

LEAST_PATIENCE = 8
MOST_PATIENCE = 64
"""How long particles that had to run alone make it worth no more to run them together."""

NOBODY = -2
"""Outcome of a segment that all lanes had to leave."""
