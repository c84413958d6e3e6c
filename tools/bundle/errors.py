"""The error that ends a bundle build."""


class BundleError(Exception):
    """A bundle cannot be made; the text is one sentence that says what was got, what is needed and what to do."""
