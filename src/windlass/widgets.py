"""Views of runs for notebooks."""

from windlass.client.runs.run_widget import RunDetails as RunDetails
