"""Reads a run's tables as the values of a report (results.data): states, faults, load, messages, witnesses."""
