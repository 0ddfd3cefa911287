"""What holds for every test."""

from hypothesis import settings

settings.register_profile("suite", deadline=None)
"""No limit of time for an example: on a loaded machine it would fail tests of everything but speed."""

settings.load_profile("suite")
