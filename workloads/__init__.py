"""What clients do: each workload is its operations, the session that carries them out, and the checks that judge it."""
