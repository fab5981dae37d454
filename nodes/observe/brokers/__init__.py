"""Observes brokers that store their metadata in ZooKeeper: sessions, the controller, and each broker's partitions."""
