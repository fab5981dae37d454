"""The clocks that a running process reads, moved from outside, without its help and without a preload.

A process reads its clocks from the vDSO, a piece of code that the kernel maps into it (vdso(7)); libc, the JVM and Go
all do. We write a hook into the unused end of that mapping through /proc/PID/mem and lead the vDSO's functions to it.
The pages are the process's own from the first write on: no other process sees a change. The hook asks the kernel for
the true time and moves it as its settings say, by an offset and a rate; new settings take two writes and stop nobody.

What moves: CLOCK_REALTIME and CLOCK_MONOTONIC, their coarse forms, gettimeofday and time: all that time.time(),
time.monotonic() and asyncio's loop in Python, and System.currentTimeMillis and nanoTime in Java, read. What does not:
file times, the boot, raw and TAI clocks, and direct system calls. fork inherits the hook, exec leaves it behind.

The kernel itself waits by its own clock. A wait for a duration (epoll, select) lasts as long as it should. A wait that
a library turns into a moment of the monotonic clock first (time.sleep and locks with a timeout in CPython, parks,
waits and sleeps in the JVM) lasts longer by that clock's offset, or not at all. So on the JVM a moved monotonic clock
is a stall as well, which a moved realtime clock is not; a server of asyncio knows only waits of the first kind.

x86-64 Linux only; elsewhere the reason is told.

What may live here: hosts' means to move clocks. What may not: the fault and its proof (nemesis/clock.py).
"""
