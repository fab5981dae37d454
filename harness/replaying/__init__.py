"""Playing stored runs again: as they were, and reduced to the smallest story that shows the same finding."""
