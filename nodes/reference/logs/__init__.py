"""Logs on a node's disk, in Kafka's files: those of a broker's partitions, and that of the quorum.

Contains files and offsets. What is appended and truncated is decided in nodes/reference/core.
"""
