"""Two runs, or a run and the nights before it: what changed around them, and which cases changed.

`environment` tells what else than the code is another, `cases` judges case by case, `report` is the table, and
`__main__` the command.
"""
