"""`python -m nodes.proxy DESCRIPTOR`: be the proxy, controlled over the Unix socket of that number.

Started by nodes.proxy.rpcs, never by hand; ends when the socket closes.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import sys

from nodes.proxy.control import serve

if __name__ == "__main__":
    # What is loaded by now is there to stay: a collection need not look at it, and no RPC waits for one that does.
    gc.freeze()
    asyncio.run(serve(socket.socket(fileno=int(sys.argv[1]))))
