"""The reference quorum: KIP-595 and KIP-996, with a switch for each fix and a mutant for each documented defect.

core/ is sans-IO: it takes events and the time, and returns effects. The other modules are the shell: properties, disk,
server and peers provide sockets, disk, clock and randomness; translate and apis convert between kio's entities and the
core's messages; log_lines writes Kafka's log format.

    python -m nodes.reference controller.properties
"""
