"""Azure ML's notebook widgets are not provided; importing them says what shows a run in a notebook."""

from windlass.client.absent import HINTS

raise ModuleNotFoundError(f"windlass.widgets is not provided in this version. {HINTS['RunDetails']}", name=__name__)
