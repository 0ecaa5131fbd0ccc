"""The params of the chaos DAGs: job, faults, moments, and load."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param

from holdfast_airflow.params import WHAT, WHERE, exactly, lock_timeout, where_it_runs

__all__ = ["chaos_params"]

_FAULTS, _LOAD = "What is broken", "Load meanwhile"


def _job_or_table(default: str | None) -> Param:
    given: dict[str, Any] = {} if default is None else {"default": default}
    return Param(
        **given,
        type="string",
        title="Job or table",
        description_md="Name of a job that runs (its Helm release, its local deployment), or of a "
        "table or stream that one of them makes.",
        pattern=exactly("[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?"),
        minLength=1,
        maxLength=60,
        examples=["movies", "movie_tickets_sold"],
        section=WHAT,
    )


def _some_of(title: str, choices: list[str], description: str, *, others: bool = False) -> Param:
    items = {"type": "string", "pattern": exactly("[a-z0-9]([a-z0-9-]*[a-z0-9])?")}
    return Param(
        [],
        type="array",
        items=items if others else {"type": "string", "enum": choices},
        examples=choices,
        uniqueItems=True,
        title=title,
        description=description,
        section=_FAULTS,
    )


def _how_much(rounds: int | None, duration: str | None) -> dict[str, Any]:
    return {
        "rounds": Param(
            rounds,
            type=["null", "integer"],
            minimum=1,
            maximum=10000,
            title="Rounds",
            description="Faults, one after the other. Empty: 10, or as many as there is time for.",
            section=_FAULTS,
        ),
        "duration": Param(
            duration,
            type=["null", "string"],
            pattern=exactly("[1-9][0-9]*[smh]"),
            title="Duration",
            description="No new fault after so long, however many are left; 6h at most. Empty: "
            "the rounds decide.",
            examples=["90s", "10m", "2h"],
            section=_FAULTS,
        ),
    }


def _what_is_broken(
    rounds: int | None, duration: str | None, confirm: str | None
) -> dict[str, Any]:
    return {
        "components": _some_of(
            "Components",
            ["driver", "executor", "server", "broker", "scheduler", "topic", "standby",
             "snapshot-store", "remote-store", "query"],
            "Parts that are hit; servers are the query servers. Empty: all that can be, but for "
            "topics and queries, whose partitions are not taken back. On "
            "Kubernetes also any other value of the label app.kubernetes.io/component of the "
            "job's pods, or holdfast/chaos-target of the platform's.",
            others=True,
        ),
        "faults": _some_of(
            "Faults",
            ["delete", "delete-now", "kill", "pause",
             "lose-volume", "cut-off", "disk-full", "slow",
             "second-driver", "old-volume", "swap-volumes", "add-partition", "recreate-topic",
             "damage-snapshot", "rescale", "empty-stores"],
            "What is done to them. Empty: all that can be done here.",
        ),
        "moments": _some_of(
            "Moments",
            ["random", "recovery", "restoring", "opened", "checked", "begun", "produced",
             "marked", "committed", "written"],
            "When. Empty: all that can be. Those after `recovery` need the tests' hook in the "
            "job's image.",
        ),
        **_how_much(rounds, duration),
        "seed": Param(
            None,
            type=["null", "integer"],
            minimum=0,
            title="Seed",
            description="The same seed gives the same schedule. Empty: a random one, printed.",
            section=_FAULTS,
        ),
        "confirm": Param(
            confirm,
            type=["null", "string"],
            title="Confirmation",
            description="The job's name once more, where the namespace is not labelled "
            "holdfast/environment=dev.",
            section=_FAULTS,
        ),
    }  # fmt: skip


def _share(title: str, default: float, description: str) -> Param:
    return Param(
        default,
        type="number",
        minimum=0,
        maximum=1,
        title=title,
        description=description,
        section=_LOAD,
    )


def _load() -> dict[str, Any]:
    return {
        "rate": Param(
            200,
            type="integer",
            minimum=1,
            title="Records per second",
            description="Over all input topics of the job, until the last fault is recovered from.",
            section=_LOAD,
        ),
        "ask": Param(
            None,
            type=["null", "string"],
            pattern=exactly(r"none|https?://[^\s,]+(,https?://[^\s,]+)*"),
            title="Query servers",
            description="They are read from meanwhile, and every answer is judged. Empty: those of "
            "the release or of the local deployment, if there are any; none; or their addresses, "
            "comma-separated.",
            examples=["none", "http://movies-serve:8088"],
            section=_LOAD,
        ),
        "keys": Param(
            200,
            type="integer",
            minimum=1,
            title="Keys",
            description="How many different ones.",
            section=_LOAD,
        ),
        "distribution": Param(
            "uniform", type="string", enum=["uniform", "zipf"], title="Keys are", section=_LOAD
        ),
        "out_of_order": _share("Out of order", 0.2, "Share with an event time some seconds old."),
        "late": _share("Late", 0.0, "Share with an event time two days old."),
        "tombstones": _share("Tombstones", 0.0, "Share without a value."),
        "garbage": _share("Garbage", 0.0, "Share that cannot be decoded."),
    }


def chaos_params(
    job: str | None = None,
    confirm: str | None = None,
    rounds: int | None = None,
    duration: str | None = None,
) -> dict[str, Any]:
    """Params of `chaos_exactly_once`, and with defaults those of `chaos_daily`."""
    where = {name: param for name, param in where_it_runs().items() if name != "bootstrap_servers"}
    return {
        "name": _job_or_table(job),
        **where,
        "values": Param(
            {},
            type="object",
            title="Chart values",
            description_md="Those that the job was deployed with: under `kafka`, if its Kafka "
            "wants credentials, and under `serve`, if its query servers want a token "
            "(`serve.auth.testTokenKey`) or have certificates. Target kubernetes only.",
            section=WHERE,
        ),
        **_what_is_broken(rounds, duration, confirm),
        **_load(),
        **lock_timeout(),
    }
