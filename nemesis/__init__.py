"""The faults, one file per kind; the undo journal; and the session that carries out nemesis operations."""
