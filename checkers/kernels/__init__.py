"""Compiled kernels: plain functions from numpy arrays to numpy arrays.

Uses numba and numpy only: no Spark, Arrow, JSON or clocks, and no files except in cache.py. Every kernel has a plain
twin in checkers/twins, and tests compare the two.

A kernel reads history rows as parallel arrays, by index within a key, one key after the other:

    kind     INVOKE, OK, FAIL or INFO
    f        READ, WRITE or CAS
    process  dense numbers from 0
    value    dense numbers from 1; NIL (0) is the initial value and what a nil read returned
    partner  the row of the other end of the operation, or NOBODY (see rows.py)
"""

from checkers.kernels.cache import use_cache

use_cache()
