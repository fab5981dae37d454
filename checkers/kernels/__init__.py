"""Compiled kernels: plain functions from numpy arrays to numpy arrays.

What may live here: numba and numpy. What may not: Spark, Arrow, JSON, clocks, and files but for cache.py. Every kernel
has a deliberately plain twin in checkers/twins, which the tests hold it to.

A kernel reads rows of history as parallel arrays, in index order inside a key, one key after the other:

    kind     INVOKE, OK, FAIL or INFO
    f        READ, WRITE or CAS
    process  dense numbers from 0
    value    dense numbers from 1; NIL (0) is the initial value and what a nil read returned
    partner  the row of the other end of the operation, or NOBODY (see rows.py)
"""

from checkers.kernels.cache import use_cache

use_cache()
