"""Pipelines."""

from ..._lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    """
    Pipeline PipelineData PipelineDraft PipelineEndpoint PipelineParameter PipelineRun PublishedPipeline Schedule
    ScheduleRecurrence StepRun StepSequence TrainingOutput
    """,
)
