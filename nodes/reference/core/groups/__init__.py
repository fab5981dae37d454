"""The group coordinator of the reference's brokers, sans-IO: consumers' memberships and their committed offsets.

    coordinator = GroupCoordinator(settings, new_id=lambda: str(uuid4()), now_ms=0)
    effects = coordinator.handle(Elected(partition, 5, records), now_ms=0)  # the broker leads one of five partitions
    effects = coordinator.handle(Arrived(request_id, request), now_ms=1)
    coordinator.deadline_ms                                                 # when to pass Tick() if nothing happens

It is Kafka's classic group protocol (KIP-62, KIP-394), with records in Kafka's format. Static members (KIP-345), the
protocol of KIP-848, transactions and the expiry of offsets are left out.

This package contains no clock, randomness, socket, file or thread, and knows neither logs nor the quorum: the shell
appends the records, and says whether they were committed.
"""
