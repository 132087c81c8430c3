"""Pipelines."""

from ..._lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    """
    DataSource DataSourceDef DataSourceNode DataType Edge Graph InputPort InputPortBinding InputPortDef Module
    ModuleDef ModuleNode Node OutputPort OutputPortBinding OutputPortDef Param ParamDef PipelineDataset
    PipelineParameter PortDataReference PublishedPipeline StoredProcedureParameter StoredProcedureParameterType
    TrainingOutput
    """,
)
