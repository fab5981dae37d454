"""The reference quorum: KIP-595 and KIP-996, every fix a switch, every documented wrong turn a mutant.

core/ is sans-IO: events and a time go in, effects come out. The other modules are the shell that gives it sockets,
disks, a clock and randomness: properties, disk, server and peers, with translate and apis (kio to the core's messages
and back) and lines (Kafka's log format) as pure helpers.

    python -m nodes.reference controller.properties
"""
