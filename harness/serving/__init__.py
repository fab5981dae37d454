"""`serve`: the nights, runs and trends of a store as web pages. It reads; nothing in it changes a run."""
