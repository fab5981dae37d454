"""Histories from elsewhere, and ours for others: Jepsen's logs, EDN, JSON lines and Parquet.

    jepsen_log.py, json_lines.py, edn.py    a text to forms, each with its line
    forms.py       a form to an operation, or what was expected of it
    importing.py   files and folders to tables of history
    exporting.py   a table of history to EDN or JSON lines

What may live here: formats. What may not: Spark, and judgements.
"""
