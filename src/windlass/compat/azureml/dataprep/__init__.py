"""Data preparation."""

from .._lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    """
    ArchiveOptions ArchiveType BlobDataSource ColumnRelationship ColumnSelector Dataflow DecimalMark ExecutionError
    ExternalReference FieldType ImputeColumnArguments InferenceArguments LocalFileOutput MSSQLDataSource
    MismatchAsOption PostgreSQLDataSource PromoteHeadersMode RegEx ReplaceValueFunction ReplacementsValue SType
    StringMissingReplacementOption SummaryColumnsValue SummaryFunction TypeConverter auto_read_file col
    get_stream_properties read_csv read_excel read_fwf read_json read_lines read_parquet_dataset read_parquet_file
    read_postgresql read_sql register_secret value
    """,
)
