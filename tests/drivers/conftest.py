"""What varies in these property tests is the machine's load, so no example has a deadline."""

from hypothesis import settings

settings.register_profile("windlass", deadline=None, print_blob=True)
settings.load_profile("windlass")
