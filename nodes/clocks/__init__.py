"""Skews the clocks of a running process from outside, without its cooperation and without a preloaded library.

A process reads its clocks through the vDSO, code that the kernel maps into it (vdso(7)); libc, the JVM and Go all use
it. We write a hook into the unused end of that mapping through /proc/PID/mem and redirect the vDSO's functions to it.
The first write gives the process private copies of the pages, so no other process sees a change. The hook gets the true
time from the kernel and applies its settings, an offset and a rate. Changing the settings takes two writes and does not
stop the process.

Affected: CLOCK_REALTIME and CLOCK_MONOTONIC, their coarse forms, gettimeofday and time. Python's time.time(),
time.monotonic() and asyncio loops read these, and so do Java's System.currentTimeMillis and nanoTime. Not affected:
file times, the boot, raw and TAI clocks, and direct system calls. fork inherits the hook; exec removes it.

The kernel's own timers are not affected. A wait for a duration (epoll, select) has its normal length. Some libraries
convert a duration to a deadline on the monotonic clock first: time.sleep and lock timeouts in CPython; park, wait and
sleep in the JVM. Such a wait is longer by that clock's offset, or returns immediately. On the JVM a skewed monotonic
clock therefore also stalls the process; a skewed realtime clock does not. An asyncio server only waits for durations.

Works on x86-64 Linux only; other machines get an error with the reason.

Contains the hosts' means to skew clocks. The fault and its proof are in nemesis/faults/clock.py.
"""
