"""A user-space switch that delays, drops, duplicates, corrupts and rate-limits the packets of single links.

It works beside the bridge that connects the nodes of a sandbox. For each link that has a shape, nft stops the bridge
from forwarding its packets. The switch reads them from the sender's bridge port (an AF_PACKET socket), shapes them and
sends them out of the receiver's port. Packets of other links never reach the switch: a kernel filter excludes them
before they are copied. The switch needs no kernel module and no privilege beyond the sandbox's.

Only IPv4 is shaped; ARP is not affected. Cuts also apply to packets from the switch, because they drop packets by the
sender's address in the receiver's namespace. Segmentation and checksum offload must be off on the nodes
(nodes.hosts.packets.packets switches it off); otherwise a frame can be 64 KB of stream without a checksum.

    shaping    shapes frames: pure, with time and random source as arguments
    ports      the sockets
    server     the loop, in a process of its own that ends with its standard input
    process    the controller's handle on that process
"""
