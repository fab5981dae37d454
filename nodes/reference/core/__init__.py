"""The quorum protocol, sans-IO. This package contains no clock, randomness, socket, file or thread.

    node = Node(settings, stored, draw, now_ms=0)  # draw(low, high) is the shell's seeded randomness
    effects = node.handle(Tick(), now_ms=0)        # carry them out in order, then wait for the next event
    node.deadline_ms                               # when to pass Tick() if there is no other event

The shell carries out effects strictly in order: data that must be durable before a response precedes the response.
"""
