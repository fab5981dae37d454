"""The controller of the reference's brokers, sans-IO: registration, sessions, topics, elections and reassignments.

    image = Image()
    image.apply(record)                                       # every committed record, on every node
    controller = Controller(image.copy(), settings, now_ms=0) # on the quorum's leader, once it has committed a record
    decision = controller.handle(request, offset, now_ms)     # records to append at this offset, and the response

A decision's records are appended as one batch; its response is sent when they are committed. The controller's own image
has its decisions at once. When the node stops leading, its controller is dropped: what was not committed never was.

This package contains no clock, randomness, socket, file or thread. It knows neither quorums nor logs of partitions.
"""
