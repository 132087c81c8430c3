"""Two kinds of targets: `shed` is attached with credentials of its own, `barn` is created and has nodes."""
