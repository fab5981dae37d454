"""Observes brokers: each one's partitions, and with ZooKeeper its sessions and the controller."""
