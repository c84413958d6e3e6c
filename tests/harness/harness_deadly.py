"""A module that ends the process that imports it, as a broken extension does."""

import os

os._exit(3)
