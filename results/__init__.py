"""The results of runs.

store.py is the run store and run_verdict.py the verdict; the report (report.py, with pictures from drawing/), JUnit XML
(junit.py) and the terminal's summary (summary.py) are made from them.
"""
