"""Changes the number of state partitions of a running query, after approval."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from holdfast_airflow.approval import ApproveRescale
from holdfast_airflow.locks.tasks import RUNS_AT_ONCE, lock_job, unlock_job
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
| `lock_job` | waits while another run changes the same job | nothing was touched; see its log |
| `rescale` | orders it, and waits for the job | the query stays as it was; see the log |
| `unlock_job` | lets the next run of the same job begin | the next run takes over |

The former changelog stays until `holdfast rescale QUERY --confirm`. The way back is another run
with the former number.
"""

with DAG(
    "rescale_state_table",
    description="Change the number of state partitions of a running query.",
    doc_md=DOC,
    schedule=None,
    catchup=False,
    max_active_runs=RUNS_AT_ONCE,
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
    # A job rescales one query at a time.  An answer may take days, and nobody waits for it.
    lock = lock_job()
    rescale = HoldfastOperator(task_id="rescale", step=RESCALE)
    plan >> approval >> lock >> rescale >> unlock_job(lock)
