"""The pure heart: what things are called, what they are, and what becomes of them. No I/O, no clock, no randomness."""
