"""Plain-Python twins of the checks: the definitions word for word, as loops over everything, for tests and benchmarks.

No check calls them. A reader can verify them by eye; they are far too slow for a run.
"""
