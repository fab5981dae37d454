"""`simulate`: plans under virtual time, about a thousand a minute; what broke a rule is stored as a run like any other.

Contains how a plan is carried out on simulated nodes, and the search over seeds. Does not contain the nodes
(nodes.simulation), or the verdict on stored runs (harness.judging).
"""
