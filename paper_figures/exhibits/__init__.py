"""One module an exhibit of the paper, each with an `EXHIBIT`."""
