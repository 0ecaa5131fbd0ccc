"""Lineage of a deployment for OpenLineage: what a job reads and writes, column by column.

The facts are those of `holdfast explain --json`, which the check's XCom has as `lineage`.
Airflow's OpenLineage provider asks for them, if it is installed; nothing here needs it before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from holdfast_airflow.assets import asset_uri, cluster_of
from holdfast_airflow.operator import HoldfastOperator

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context
    from openlineage.client.event_v2 import InputDataset, OutputDataset
    from openlineage.client.facet_v2 import DatasetFacet, JobFacet, column_lineage_dataset

    Told = OperatorLineage[InputDataset | OutputDataset, JobFacet]

__all__ = ["DeployOperator"]

_DIRECT = {"IDENTITY", "TRANSFORMATION", "AGGREGATION"}


class DeployOperator(HoldfastOperator):
    """Deploys a job, and tells OpenLineage of the topics that it reads and writes.

    Args:
        explained: task of the check, whose XCom has the lineage.
    """

    def __init__(self, *, explained: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.explained = explained
        self._told: dict[str, Any] = {}
        self._cluster = ""

    def execute(self, context: Context) -> Any:
        # Before the deployment: one that fails has lineage, too.
        self._read_lineage(context)
        return super().execute(context)

    def trigger_reentry(self, context: Context, event: dict[str, Any]) -> Any:
        self._read_lineage(context)
        return super().trigger_reentry(context, event)

    def _read_lineage(self, context: Context) -> None:
        self._told = context["ti"].xcom_pull(task_ids=self.explained) or {}
        self._cluster = cluster_of(self.asked(context))

    def get_openlineage_facets_on_complete(self, _task_instance: Any) -> Told | None:
        """Answers Airflow's OpenLineage provider, after a success and after a failure."""
        from airflow.providers.openlineage.extractors import OperatorLineage
        from openlineage.client.facet_v2 import sql_job

        statements = self._told.get("lineage")
        if not statements:
            return None
        kafka = f"kafka://{self._told['bootstrap_servers'].partition(',')[0].strip()}"
        text = "\n".join(f"{each['statement']};" for each in statements)
        return OperatorLineage(
            inputs=[*_inputs(kafka, statements)],
            outputs=[_output(kafka, self._cluster, each) for each in _by_topic(statements)],
            job_facets={"sql": sql_job.SQLJobFacet(query=text)},
        )


def _by_topic(statements: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The statements, those that write one topic (INSERT INTO … SELECT) as one."""
    found: dict[str, dict[str, Any]] = {}
    for each in statements:
        topic = each["output"]["topic"]
        if topic not in found:
            found[topic] = each
            continue
        before = found[topic]
        columns = [
            {**column, "origins": [*column["origins"], *more["origins"]]}
            for column, more in zip(
                before["output"]["columns"], each["output"]["columns"], strict=True
            )
        ]
        rows = [*before["rows"], *each["rows"]]
        found[topic] = {**before, "output": {**before["output"], "columns": columns}, "rows": rows}
    return list(found.values())


def _inputs(kafka: str, statements: list[dict[str, Any]]) -> list[InputDataset]:
    """The topics that others write; a table that the job reads itself is an output."""
    from openlineage.client.event_v2 import InputDataset

    own = {each["output"]["topic"] for each in statements}
    read = {of["topic"]: of for each in statements for of in each["inputs"]}
    return [
        InputDataset(namespace=kafka, name=topic, facets={"schema": _schema(of)})
        for topic, of in read.items()
        if topic not in own
    ]


def _output(kafka: str, cluster: str, statement: dict[str, Any]) -> OutputDataset:
    from openlineage.client.event_v2 import OutputDataset
    from openlineage.client.facet_v2 import column_lineage_dataset, symlinks_dataset

    output = statement["output"]
    asset = symlinks_dataset.Identifier(
        namespace=asset_uri(cluster, "").rstrip("/"), name=output["name"], type=output["kind"]
    )
    lineage = column_lineage_dataset.ColumnLineageDatasetFacet(
        fields={
            column["name"]: column_lineage_dataset.Fields(
                inputFields=_fields(kafka, column["origins"])
            )
            for column in output["columns"]
            if column["origins"]
        },
        dataset=_fields(kafka, statement["rows"]),
    )
    facets: dict[str, DatasetFacet] = {
        "schema": _schema(output),
        "columnLineage": lineage,
        "symlinks": symlinks_dataset.SymlinksDatasetFacet(identifiers=[asset]),
    }
    return OutputDataset(namespace=kafka, name=output["topic"], facets=facets)


def _schema(relation: dict[str, Any]) -> DatasetFacet:
    from openlineage.client.facet_v2 import schema_dataset

    return schema_dataset.SchemaDatasetFacet(
        fields=[
            schema_dataset.SchemaDatasetFacetFields(name=column["name"], type=column["type"])
            for column in relation["columns"]
        ]
    )


def _fields(
    kafka: str, origins: Iterable[dict[str, str]]
) -> list[column_lineage_dataset.InputField]:
    """Each column that takes part, with all ways in which it does."""
    from openlineage.client.facet_v2 import column_lineage_dataset

    kinds: dict[tuple[str, str], dict[str, None]] = {}
    for origin in origins:
        kinds.setdefault((origin["topic"], origin["column"]), {})[origin["kind"]] = None
    return [
        column_lineage_dataset.InputField(
            namespace=kafka,
            name=topic,
            field=column,
            transformations=[
                column_lineage_dataset.Transformation(
                    type="DIRECT" if kind in _DIRECT else "INDIRECT", subtype=kind
                )
                for kind in of
            ],
        )
        for (topic, column), of in kinds.items()
    ]
