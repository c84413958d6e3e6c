"""From recorded runs to the paper's tables, figures and claims, each beside the published number.

Reads runs through `harness.results` and names through `harness.naming`; measuring is left to `python -m harness`.
"""
