"""From recorded runs to the paper's tables, figures and claims, each beside the published number.

Reads runs through `harness.results` and nothing else of the project; measuring is left to `python -m harness`.
"""
