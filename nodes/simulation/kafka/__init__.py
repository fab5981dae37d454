"""The Raft client of released Kafka under virtual time: nodes.simulation.cluster.SimulatedCluster on a JVM."""
