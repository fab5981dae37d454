"""What a run leaves behind and what a reviewer reads.

store.py is the run's directory, run_verdict.py what the checks said of it, and from both come the report (report.py,
drawn by drawing/), JUnit XML (junit.py) and the terminal's summary (summary.py).
"""
