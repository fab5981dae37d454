"""The reference quorum: KIP-595 and KIP-996, every fix a switch, every documented wrong turn a mutant.

core/ is sans-IO: events and a time go in, effects come out. The other modules are the shell that gives it sockets,
disks, a clock and randomness: translate (kio to the core's messages), disk, properties, peers, server.

    python -m nodes.reference controller.properties
"""
