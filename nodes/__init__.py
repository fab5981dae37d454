"""What runs, and where: hosts, Kafka, the reference quorum, and what is between and beside the nodes."""

import harness.without_hypothesis  # noqa: F401 - before anything of kio
