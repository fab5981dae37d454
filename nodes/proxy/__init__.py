"""The Kafka-aware, transparent proxy: nodes talk through it without knowing, and single RPCs can be disturbed.

**One process for all nodes of a sandbox.** nft redirects, in each node's own network namespace, what the node sends to
the other nodes' ports to a socket that the proxy has in that same namespace, so an RPC between two nodes passes exactly
one proxy, and the receiver still sees the sender's address. One process rather than one a node: rules change at one
moment for all, their counters and the record are in one place, and a quorum's few RPCs are no load for one event loop.
It is not the controller's process, so that neither waits for the other and a killed proxy is a fault like any.

**Order.** A connection is two queues, requests and responses, and in a queue nothing overtakes: Kafka's clients take
a response out of turn for a broken peer, and TCP would never deliver one. From this follows what each action means:

    hold       the message waits until its rule goes, and what follows it in its queue waits behind it. A request that
               is held when its sender closes the connection is still delivered, late, and answered into the void
               (KAFKA-17754); a held response of a client that has left is dropped by that client's kernel. A rule that
               loses what it holds closes the connection instead when it goes.
    delay      as hold, for a time.
    drop       the message is lost, and with it all that follows in its queue: TCP loses no single message, so to the
               receiver this is a path that went dark. Its sender can only time out and open a new connection. Where
               its rule goes first, the connection is closed.
    duplicate  a request arrives twice in a row; the second response is swallowed.
    answer     a request goes no further, and its sender gets an error when all earlier ones have been answered.
    close      both ends are closed at once; the message is lost.

**What differs from no proxy.** A connection to a port where nobody listens opens and is reset at once instead of being
refused; one on a cut link opens, and what its client sends waits, and is forgotten when the client leaves. What is not
Kafka's protocol closes the connection.

Each module but `server`, `control`, `process`, `namespaces`, `interception`, `record` and `rpcs` is free of I/O.
"""
