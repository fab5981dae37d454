"""Deliberately plain twins of the checks: the definition word for word, by loops over everything, for the tests.

What may live here: plain Python that can be checked by eye. What may not: anything that a check calls.
"""
