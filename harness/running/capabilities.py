"""What a system offers the nemesis beside the hosts' capabilities: membership, reassignment, requests, a probe.

Contains how they are opened and closed. Does not contain connections: NodeAccess opens those of real or simulated
nodes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from harness.model.systems import NodeAccess, SystemKind
from nemesis.context import NemesisContext


@asynccontextmanager
async def offered(system: SystemKind, access: NodeAccess, context: NemesisContext) -> AsyncIterator[None]:
    """Give the nemesis what a system offers and is not unavailable, until the end of the block."""
    async with AsyncExitStack() as stack:
        if system.membership and "membership" not in context.unavailable:
            context.membership = await stack.enter_async_context(system.membership(access))
        if system.reassignment and "reassignment" not in context.unavailable:
            context.reassignment = await stack.enter_async_context(system.reassignment(access))
        if system.requests and "requests" not in context.unavailable:
            context.requests = await stack.enter_async_context(system.requests(access))
        if system.probe and "probe" not in context.unavailable:
            context.probe = await stack.enter_async_context(system.probe(access))
        yield
