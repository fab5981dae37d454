"""Random exploration: runs whose schedule, load and settings are drawn, one after another, until one shows a bug."""
