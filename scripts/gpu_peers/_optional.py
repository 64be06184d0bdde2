"""Packages that a peer needs and that may not be there."""

import importlib

# What was not imported and why, in words.
missing = []


def imported(name):
    """A module, or nothing where it is not there or does not load here: then `missing` says why."""
    try:
        return importlib.import_module(name)
    except Exception as error:
        # What a package asserts may have no words.
        why = (str(error).splitlines() or [""])[0]
        missing.append(f"{name}: {type(error).__name__}: {why}")
        return None
