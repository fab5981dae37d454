"""The shell of a node's broker: its listeners for clients, its life at the controller, and what it answers from the
metadata. The decisions are in nodes/reference/core."""
