"""Kafka's wire protocol on kio: frames, connections and record batches, shared by server, clients and observers."""
