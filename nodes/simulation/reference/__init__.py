"""The reference system under virtual time: its core as it is, and a disk, peers and clients in memory for its shell."""
