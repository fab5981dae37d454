"""Comparing two sets of stored runs: what got worse, what got better, and what may be chance."""
