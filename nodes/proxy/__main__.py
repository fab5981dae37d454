"""`python -m nodes.proxy DESCRIPTOR`: runs the proxy, controlled over the Unix socket with this descriptor.

Started by nodes.proxy.process; ends when the socket closes.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import sys

from nodes.proxy.control import serve

if __name__ == "__main__":
    # Loaded modules stay in memory. Excluding them from garbage collection keeps its pauses short.
    gc.freeze()
    asyncio.run(serve(socket.socket(fileno=int(sys.argv[1]))))
