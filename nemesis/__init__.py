"""The faults, one file a kind, the undo journal, and the session that carries out a story's actions."""
