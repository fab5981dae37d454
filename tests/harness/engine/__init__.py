"""Tests of the engine; simulation.py is what they run generators on."""
