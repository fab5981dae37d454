"""A switch in user space that delays, loses, doubles, damages and slows the packets of single links.

It stands beside the bridge that connects the nodes of a sandbox. For each link that has a shape, nft keeps the bridge
from forwarding its packets, and the switch, which reads them from the sender's bridge port (an AF_PACKET socket), sends
what becomes of them out of the receiver's port. Links without a shape never meet it: a filter in the kernel sees to it
that their packets are not even copied. It needs no kernel module, and no more right than the sandbox gives.

Only IPv4 is shaped; what nodes ask by ARP is answered as ever, and cuts, which drop by the sender's address in the
receiver's namespace, hold for what the switch sends too. Segmentation and checksums must not be left to hardware that
is not there (nodes.hosts.packets.packets sees to that), or a "packet" would be 64 KB of stream with no checksum yet.

    shaping       what becomes of a packet: pure, of time and chance that it is given
    ports      the sockets
    server     the loop, in a process of its own, which ends when its standard input does
    process    that process as its starter sees it
"""
