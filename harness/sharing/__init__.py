"""Sharing runs: one archive with what judging needs, and its import, which trusts nothing in it."""
