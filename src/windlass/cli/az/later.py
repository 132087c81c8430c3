"""Groups of `az ml` that are not provided yet: each prints what is missing and what to use instead."""

from __future__ import annotations

from windlass.cli.az.declaration import AzGroup

SERVICES = "`windlass az ml model download` fetches a model, for a service of your own."
PIPELINES = "submit the steps one after the other: `windlass az ml job create` with --stream waits for each."
_DATA = "pass paths as arguments of the script."
_NOT = "not provided in this version:"

_SENTENCES = {
    "service endpoint online-endpoint online-deployment": f"Web services are {_NOT} {SERVICES}",
    "batch-endpoint batch-deployment serverless-endpoint": f"Endpoints are {_NOT} {SERVICES}",
    "image manifest env": f"Images of web services are {_NOT} {SERVICES}",
    "dataset data": f"Datasets are {_NOT} {_DATA}",
    "datastore": f"Datastores are {_NOT} {_DATA}",
    "pipeline component": f"Pipelines are {_NOT} {PIPELINES}",
    "schedule": f"Schedules are {_NOT} let cron call `windlass az ml job create`.",
    "feature-set feature-store feature-store-entity": f"Feature stores are {_NOT} {_DATA}",
    "registry": f"Registries are {_NOT} models and environments are kept in the workspace.",
    "code": f"Code assets are {_NOT} the folder of a job goes with it.",
    "connection": f"Connections of the CLI v2 are {_NOT} `windlass connection` has those of targets.",
    "marketplace-subscription": f"The marketplace is {_NOT} register models of your own.",
}

later = AzGroup("later", "Groups that are not provided in this version.")
for _names, _sentence in _SENTENCES.items():
    later.explain(_names, _sentence)
