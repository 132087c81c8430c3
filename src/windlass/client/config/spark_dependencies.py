"""spark_dependencies.yml: Spark's configuration, repositories and packages, in a file beside a run configuration.

It applies only to a run configuration whose framework is PySpark; otherwise it is ignored, as in Azure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, List

from windlass.client.config import yaml, yaml_map

if TYPE_CHECKING:
    from windlass.client.config.run_configuration import RunConfiguration

_PACKAGE = ("group", "artifact", "version")


@dataclass(frozen=True)
class SparkDependencies:
    configuration: Dict[str, Any] = field(default_factory=dict)
    repositories: List[str] = field(default_factory=list)
    packages: List[Dict[str, str]] = field(default_factory=list)  # group, artifact, version

    def apply(self, run_config: RunConfiguration) -> None:
        """Set them in the sections of a run configuration."""
        from windlass.client.environments.sections import SparkPackage

        if self.configuration:
            run_config.spark.configuration = dict(self.configuration)
        run_config.environment.spark.repositories = list(self.repositories)
        run_config.environment.spark.packages = [SparkPackage(**package) for package in self.packages]


def of_run_configuration(run_config: RunConfiguration) -> SparkDependencies:
    spark = run_config.environment.spark
    packages = [{key: str(getattr(package, key)) for key in _PACKAGE} for package in spark.packages]
    return SparkDependencies(dict(run_config.spark.configuration), list(spark.repositories), packages)


def load(path: str) -> SparkDependencies:
    file = yaml_map.load(path, "Spark dependencies")
    file.check_keys(("configuration", "repositories", "packages"))
    packages = [{key: package.required_text(key) for key in _PACKAGE} for package in file.maps("packages", _PACKAGE)]
    return SparkDependencies(file.map("configuration").body, file.text_list("repositories"), packages)


def dump(dependencies: SparkDependencies, path: str) -> None:
    """Write a file; comments of an existing file are kept."""
    body = {
        "configuration": dependencies.configuration,
        "repositories": dependencies.repositories,
        "packages": dependencies.packages,
    }
    yaml.write(path, body)
