"""Imports external histories, and exports ours: Jepsen's logs, EDN, JSON lines and Parquet.

    sources.py                        paths and standard input to texts and Parquet chunks
    texts.py, edn.py, json_texts.py   a text to forms, each with its line
    forms.py                          a form to an operation, or a message about what was expected
    importing.py                      histories to history tables
    exporting.py                      a history table to EDN or JSON lines

Contains formats. Does not contain Spark or checks.
"""
