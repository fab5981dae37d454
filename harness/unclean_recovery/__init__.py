"""Recovers partitions that have no leader, as Kafka's proposal KAFKA-20098 describes its two tools.

    options ─► which partitions ─► survey of their replicas ─► choice of a leader ─► elections ─► report
    options,   partitions          survey (asking)            choice               elections    outcomes
    files                                                                          (electing)

The decisions are pure functions and small states without sockets and clocks; the modules in parentheses and `access`
connect them with a cluster, `recover` and `elect` are the two tools. They speak Kafka's protocol only, so they work on
any cluster that has the proposal's two RPCs (nodes.wire.unreleased).
"""
