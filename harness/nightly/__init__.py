"""Nights: scenarios and explorations on several systems, within a budget, that resume after any interruption."""
