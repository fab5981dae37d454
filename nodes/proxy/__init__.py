"""The transparent, Kafka-aware proxy between nodes. Rules act on single RPCs; nodes do not notice the proxy otherwise.

**One process for all nodes of a sandbox.** In each node's network namespace, nft redirects connections to other nodes'
ports to a socket of the proxy in the same namespace. So an RPC between two nodes passes the proxy exactly once, and the
receiver still sees the sender's address. With one process, rules change for all nodes at the same moment, and counters
and the record are in one place; one event loop is enough for a quorum's RPCs. The proxy is not part of the controller's
process, so neither waits for the other.

**Order.** A connection has two queues, one for requests and one for responses, and each queue is strictly in order:
Kafka's clients treat a response out of order as a broken peer, and TCP never delivers one. This determines the actions:

    hold       The message waits until its rule is removed, and later messages in its queue wait behind it. If the
               sender of a held request closes the connection, the request is still delivered, late, and its response
               is discarded (KAFKA-17754). A held response for a client that has closed is dropped by the client's
               kernel. A rule that loses the messages it holds closes the connection when it is removed.
    delay      As hold, for a given time.
    drop       The message is lost, and so are all later messages in its queue: TCP never loses a single message, so the
               receiver sees a connection that went silent. The sender can only time out and reconnect. If the rule is
               removed first, the connection is closed.
    duplicate  A request is delivered twice in a row; the second response is discarded.
    answer     A request is not forwarded; its sender gets an error after the responses to all earlier requests.
    close      Both ends are closed immediately; the message is lost.

**Differences from a connection without the proxy.** A connection to a closed port opens and is then reset, instead of
being refused. A connection on a cut link opens; requests on it wait, and are discarded when the client closes. Data
that is not Kafka's protocol closes the connection.

All modules do I/O except `channel`, `exchange`, `frames`, `message_queue` and `rules`.
"""
