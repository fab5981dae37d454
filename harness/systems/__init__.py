"""The built-in systems under test, real Apache Kafka and the reference quorum, each as one value.

Contains which parts of nodes/ and workloads/ make up a system, and the cluster that a plan asks for. Does not contain
how any part works.
"""
