"""Asks single nodes of a quorum and runs tools beside them: what every system that speaks Kafka's protocol shares.

Contains where facts about a cluster come from, single requests and child processes. Does not contain expectations
(nemesis.faults.probe), or which tools there are (nodes.kafka.tools).
"""
