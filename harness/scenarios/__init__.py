"""The catalogue of scenarios. Each scenario is a value; each module collects its own in SCENARIOS.

A module's SCENARIOS is registered with the entry point group `splitbrain.scenarios`; harness.plugins finds all of them.

Contains scenarios and their description as text. Does not contain code that runs them.
"""
