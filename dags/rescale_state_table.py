"""Changes the number of state partitions of a running query, after approval."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from holdfast_airflow.approval import ApproveRescale
from holdfast_airflow.operator import HoldfastOperator
from holdfast_airflow.params import rescale_params
from holdfast_airflow.steps import PLAN_RESCALE, RESCALE

DOC = """
### Rescale a state table

Changes the number of state partitions of a query while its job runs; the input is not read again.

| task | does | when it fails |
|---|---|---|
| `plan` | how many state partitions there are, and shall be | nothing was touched |
| `approval` | shows it; Approve or Reject; silence is a no | nothing was touched |
| `rescale` | orders it, and waits for the job | the query stays as it was; see the log |

The former changelog stays until `holdfast rescale QUERY --confirm`. The way back is another run
with the former number.
"""

with DAG(
    "rescale_state_table",
    description="Change the number of state partitions of a running query.",
    doc_md=DOC,
    schedule=None,
    catchup=False,
    # A job rescales one query at a time.
    max_active_runs=1,
    dagrun_timeout=timedelta(days=9),
    tags=["holdfast", "rescale"],
    params=rescale_params(),
    render_template_as_native_obj=False,
    default_args={
        "owner": "holdfast",
        "retries": 2,
        "retry_delay": timedelta(seconds=10),
        "execution_timeout": timedelta(days=1, minutes=10),
    },
):
    plan = HoldfastOperator(task_id="plan", step=PLAN_RESCALE)
    approval = ApproveRescale(task_id="approval", plan="plan")
    plan >> approval >> HoldfastOperator(task_id="rescale", step=RESCALE)
