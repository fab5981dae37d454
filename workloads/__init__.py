"""Workloads: each defines operations, the session that executes them, and the checks for its history."""

import harness.without_hypothesis  # noqa: F401 - before anything of kio
