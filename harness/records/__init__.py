"""What is measured and how it is called: rows of a run, names of cases, where things lie, statistics of samples."""
