"""Imports external histories, and exports ours: Jepsen's logs, EDN, JSON lines and Parquet.

    texts.py, edn.py    a text to forms, each with its line
    forms.py            a form to an operation, or a message about what was expected
    importing.py        files and folders to history tables
    exporting.py        a history table to EDN or JSON lines

Contains formats. Does not contain Spark or checks.
"""
