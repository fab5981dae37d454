"""Queries over the table of a store's runs (harness.model.records.tables.RUNS)."""
