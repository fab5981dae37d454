"""The quorum itself, sans-IO: no clock, randomness, socket, file or thread may live in this package.

    node = Node(settings, stored, draw, now_ms=0)  # draw(low, high) is the shell's seeded randomness
    effects = node.handle(Tick(), now_ms=0)        # carry them out in their order, then wait for the next event
    node.deadline_ms                               # or until then, and hand in Tick()

Effects are carried out strictly in order: what is to be durable before an answer stands before it.
"""
