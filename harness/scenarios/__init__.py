"""The catalogue: every scenario that splitbrain brings. Each scenario is a value; each module ends in SCENARIOS.

A module is registered with the entry point group `splitbrain.scenarios`; harness.plugins finds all of them.
"""
