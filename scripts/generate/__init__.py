"""Documents and examples that are made from the code: `python -m scripts.generate` writes all of them.

A test compares each with what is committed, so none of them can be out of date.
"""
