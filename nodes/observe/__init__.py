"""Observers: convert nodes' logs, files and responses into one table of observations, for all systems."""
