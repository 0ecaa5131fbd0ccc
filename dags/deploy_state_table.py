"""Deploys a state table, or another set of statements, and verifies it."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, TriggerRule

from holdfast_airflow.assets import PublishDeployment
from holdfast_airflow.lineage import DeployOperator
from holdfast_airflow.locks.tasks import RUNS_AT_ONCE, lock_job, unlock_job
from holdfast_airflow.operator import HoldfastOperator, LeftOutOperator, RollBackOperator
from holdfast_airflow.params import deploy_params
from holdfast_airflow.sensor import CaughtUpSensor
from holdfast_airflow.steps import CHECK, DEPLOY, ROLL_BACK, SMOKE, TOPICS

DOC = """
### Deploy a state table

Give a **name** and **SQL**; the rest has defaults. Trigger it again with changed SQL or size to
upgrade the job: a change that its stored rows do not fit is refused before anything is touched.

| task | does | when it fails |
|---|---|---|
| `lock_job` | waits while another run changes the same job | nothing was touched; see its log |
| `validate_and_explain` | prints the plan, compares it with Kafka | nothing was touched |
| `create_topics` | makes missing topics, checks the others | topics it made stay |
| `deploy` | a new revision, ready or taken back | the previous revision runs |
| `wait_until_caught_up` | lag in the log, until the sources are read | `roll_back` |
| `smoke_check` | commit markers, results, and a pull query for each table | `roll_back` |
| `deployed` | an event of each table's asset | the tables stay deployed |
| `left_out` | how much of its input is in no result | the table stays deployed |
| `roll_back` | back to the previous revision, or undeployed if it was the first | look at the job |
| `unlock_job` | lets the next run of the same job begin | the next run takes over |

Runs for different jobs go on side by side.

A run whose `left_out` failed has deployed a table that is exact over a part of its input only:
more records were dropped as late or for a NULL in their key, or set aside as dead letters, than
`late.warn.share`, `null.key.warn.share` and `dead.letter.warn.share` allow (**Properties**).
The pull queries go to the query servers, if there are any (**Query servers** of target `local`,
`serve.enabled` in **Chart values**): each table's newest result is read back by its key.
The reason of a failure is the last line of the task's log, and its XCom `reason`.
With target `local` the same commands run as processes beside Airflow instead of as pods.
"""

with DAG(
    "deploy_state_table",
    description="Check, deploy, wait, verify; roll back if that fails.",
    doc_md=DOC,
    schedule=None,
    catchup=False,
    max_active_runs=RUNS_AT_ONCE,
    dagrun_timeout=timedelta(days=3),
    tags=["holdfast", "deploy"],
    params=deploy_params(),
    render_template_as_native_obj=False,
    default_args={
        "owner": "holdfast",
        "retries": 2,
        "retry_delay": timedelta(seconds=10),
        "retry_exponential_backoff": True,
        "max_retry_delay": timedelta(minutes=2),
        "execution_timeout": timedelta(minutes=10),
    },
):
    # A second run would deploy between this one's checks, and be rolled back in its place.
    lock = lock_job()
    validate = HoldfastOperator(task_id="validate_and_explain", step=CHECK)
    topics = HoldfastOperator(task_id="create_topics", step=TOPICS)
    deploy = DeployOperator(
        task_id="deploy",
        step=DEPLOY,
        explained=validate.task_id,
        retries=1,
        execution_timeout=timedelta(hours=2),
    )
    caught_up = CaughtUpSensor(task_id="wait_until_caught_up", poke_interval=10)
    smoke = HoldfastOperator(task_id="smoke_check", step=SMOKE)
    roll_back = RollBackOperator(
        task_id="roll_back",
        step=ROLL_BACK,
        deploy=deploy.task_id,
        checks=[caught_up.task_id, smoke.task_id],
        trigger_rule=TriggerRule.ONE_FAILED,
        retries=0,
        execution_timeout=timedelta(minutes=30),
    )
    # A leaf of its own: without it, a run whose table was rolled back would end in success.
    deployed = PublishDeployment(
        task_id="deployed",
        told_by=smoke.task_id,
        deploy=deploy.task_id,
        caught_up=caught_up.task_id,
    )
    left_out = LeftOutOperator(task_id="left_out", smoke=smoke.task_id)

    lock >> validate >> topics >> deploy >> caught_up >> smoke >> [deployed, left_out]
    [caught_up, smoke] >> roll_back
    [deployed, left_out, roll_back] >> unlock_job(lock)
