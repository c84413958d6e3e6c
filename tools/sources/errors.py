"""The error that ends a command."""


class SourcesError(Exception):
    """A build cannot be used; the text is one sentence that says what was got, what is needed and what to do."""
