"""Observers: they turn what nodes log, store and answer into one table of observations, for every system alike."""
