"""The engine: runs a generator's operations on concurrent workers and records the history.

Corresponds to jepsen.generator and jepsen.generator.interpreter. generator.py has the protocol, interpreter.py the
loop, recorder.py the history. Combinators are in combinators.py (order, choice, number), pacing.py (time), placement.py
(workers) and independent.py (independent keys).

    with Recorder(run, clock := RunClock.started_now()) as recorder:
        tally = await interpret(clients(limit(100, writes)), concurrency=5, open_session=open_session, nemesis=None,
                                recorder=recorder, clock=clock)

To add a combinator, write a frozen dataclass with next and update, a function that returns it, and a literal history
in tests/harness/engine/test_generators.py; then add it to the strategies of test_generator_properties.py.
"""

from harness.engine.clock import Clock, RunClock, VirtualClock
from harness.engine.combinators import all_ok, any_of, limit, mix, phases, repeat, synchronize, then, until_ok
from harness.engine.generator import PENDING, Context, Generator, Pending, fixed, from_function, mark
from harness.engine.independent import concurrent_generator
from harness.engine.interpreter import Tally, interpret
from harness.engine.pacing import ask_again, bursts, delay, milliseconds, seconds, sleep, stagger, time_limit
from harness.engine.placement import clients, each_process, each_worker, nemesis, reserve
from harness.engine.randomness import split
from harness.engine.recorder import Recorder
from harness.engine.records import read_history, read_observations

__all__ = [
    "PENDING",
    "Clock",
    "Context",
    "Generator",
    "Pending",
    "Recorder",
    "RunClock",
    "Tally",
    "VirtualClock",
    "all_ok",
    "any_of",
    "ask_again",
    "bursts",
    "clients",
    "concurrent_generator",
    "delay",
    "each_process",
    "each_worker",
    "fixed",
    "from_function",
    "interpret",
    "limit",
    "mark",
    "milliseconds",
    "mix",
    "nemesis",
    "phases",
    "read_history",
    "read_observations",
    "repeat",
    "reserve",
    "seconds",
    "sleep",
    "split",
    "stagger",
    "synchronize",
    "then",
    "time_limit",
    "until_ok",
]
