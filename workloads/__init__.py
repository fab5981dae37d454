"""Workloads: each defines operations, the session that executes them, and the checks for its history."""
