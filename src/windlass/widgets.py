"""Views of runs for notebooks."""

from windlass.client.notebook.run_widget import RunDetails as RunDetails
