"""The replicated partitions of the reference's brokers, sans-IO: leaders, followers, and the rules of truncation.

    broker = Broker(settings, logs, now_ms=0)               # logs opens a partition's log (log.ReplicaLog)
    effects = broker.handle(Assign(assignments), now_ms=0)  # what the metadata says of its partitions
    effects = broker.handle(Arrived(request_id, request), now_ms=1)
    broker.deadline_ms                                      # when to pass Tick() if there is no other event

A partition's log is a capability that is passed in: it appends and truncates at once. Other effects are carried out in
order. This package contains no clock, randomness, socket, file or thread, and knows neither the controller nor the
quorum: the shell fills assignments from the metadata, and carries requests to the controller.
"""
