"""The results of runs.

store.py is the run store, run_verdict.py the verdict and description.py what was run. The report (report.py, with
pictures from drawing/), JUnit XML (junit.py) and the terminal's summary (summary.py) are made from them; quantities.py,
kinds.py and headline.py have the wording that they share. reading/ makes the report's values of a run's tables.
"""
