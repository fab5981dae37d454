"""Simulation: nodes in one process under virtual time, deterministic by seed. The code of the nodes is the real one."""
