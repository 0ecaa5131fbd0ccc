"""The commands that README and the pages of jobs/docs show, and the tests that run each."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "ELSEWHERE",
    "LANGUAGES",
    "PAGES",
    "ROOT",
    "SCENES",
    "Block",
    "Command",
    "blocks",
    "commands",
    "make_workspace",
    "simple_commands",
]

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "jobs" / "docs").glob("*.md")))
LANGUAGES = frozenset({"bash", "json", "python", "sql", "text", "yaml"})
"""What a fence may say; `bash` is commands, and a second word is a file that commands read."""

_LINKED = ("jobs", "helm", "tests")
_FENCE = re.compile(r"^```(\S*)[ ]*(\S*)$(.*?)^```$", re.MULTILINE | re.DOTALL)

SCENES: dict[str, tuple[str, ...]] = {
    "quick start": (
        "source .venv/bin/activate",
        "holdfast kafka start",
        "holdfast produce movies",
        "holdfast explain jobs/examples/movies.sql",
        "holdfast run jobs/examples/movies.sql --until-caught-up",
        "holdfast inspect MOVIE_TICKETS_SOLD jobs/examples/movies.sql",
        "holdfast verify jobs/examples/movies.sql",
    ),
    "deploy": (
        "holdfast check jobs/examples/movies.sql",
        "holdfast topics jobs/examples/movies.sql",
        "holdfast deploy movies jobs/examples/movies.sql",
        "holdfast status movies",
        "holdfast dead-letters movies",
        "holdfast smoke jobs/examples/movies.sql",
    ),
    "sql": (
        "holdfast functions",
        "holdfast functions json",
        "holdfast explain my.sql --set functions=my_functions.py",
        "holdfast sql",
        (
            "holdfast sql jobs/examples/movies.sql "
            "-e 'SHOW QUERIES; DESCRIBE movie_tickets_sold EXTENDED;'"
        ),
        "holdfast pause ctas_movie_tickets_sold",
        "holdfast resume ctas_movie_tickets_sold",
        "holdfast terminate ctas_movie_tickets_sold",
        "holdfast resume ctas_movie_tickets_sold --restore",
    ),
    "tests of statements": (
        "holdfast test -s statements.sql -i input.json -o output.json",
        "holdfast test cases",
    ),
    "serving": (
        "holdfast serve jobs/examples/movies.sql",
        "holdfast query \"SELECT * FROM movie_tickets_sold WHERE title = 'Aliens';\"",
        (
            'holdfast query "SELECT * FROM movie_tickets_sold EMIT CHANGES LIMIT 3;" '
            "--set auto.offset.reset=earliest"
        ),
        (
            "curl -s localhost:8088/v1/query "
            '-d \'{"sql": "SELECT * FROM movie_tickets_sold LIMIT 5;",\n'
            '  "properties": {"ksql.query.pull.table.scan.enabled": true}}\''
        ),
        "holdfast token dashboards --read 'MOVIE_*' --file tokens.toml",
    ),
    "compaction": (
        "holdfast compaction survey",
        "holdfast compaction plan --policy target.restore.s=30",
    ),
    "schema registry": (
        "holdfast explain messages.sql",
        "holdfast run messages.sql --until-caught-up",
        "holdfast inspect TURNOVER messages.sql",
        "holdfast smoke messages.sql",
        "holdfast registry start",
        "holdfast registry status",
        "holdfast registry stop",
    ),
    "looking in": (
        "holdfast config",
        "holdfast config --markdown",
        "holdfast inspect",
        "holdfast inspect MOVIE_TICKETS_SOLD jobs/examples/movies.sql --json",
        "holdfast stores",
        "holdfast sinks",
    ),
    "your own data": (
        "holdfast kafka topic readings 4",
        "python producer.py",
        "holdfast explain rooms.sql",
        "holdfast check rooms.sql",
        "holdfast deploy rooms rooms.sql",
        "holdfast status rooms",
        "holdfast inspect ROOMS rooms.sql",
        "holdfast serve rooms.sql",
        "holdfast query \"SELECT * FROM rooms WHERE room = 'attic';\"",
        (
            'holdfast query "SELECT room, warmest FROM rooms EMIT CHANGES LIMIT 2;" '
            "--set auto.offset.reset=earliest"
        ),
        "holdfast dead-letters rooms",
        "holdfast dead-letters rooms --replay",
        "holdfast deploy rooms rooms-2.sql",
        "holdfast undeploy rooms",
    ),
    "the end": (
        "holdfast undeploy movies",
        "holdfast kafka stop",
    ),
}
"""What tests/e2e/test_docs.py runs, in this order, in one folder with one broker."""

_SUITE = "tests/unit/test_docs.py::test_every_command_parses"
_DEMO = "tests/e2e/test_demo.py::test_a_short_demo_kills_twice_is_valid_and_goes_on_when_asked_to"
_CHAOS = "tests/chaos/test_local.py::test_faults_at_chosen_moments_change_no_table_and_no_answer"
_MUTANTS = "tests/simulation/test_mutants.py::test_a_broken_engine_is_found"
_CLUSTER = "tests/e2e/cluster/test_table.py"
_DAGS = "tests/dags/test_deployment.py::test_a_table_is_deployed_is_right_and_is_undeployed"
_APPLY = (
    "tests/integration/compaction/test_running_job.py"
    "::test_a_running_job_keeps_its_table_exact_while_its_changelog_is_cleaned"
)
_SAVEPOINT = (
    "tests/integration/deploy/test_savepoints.py"
    "::test_a_deployment_begins_with_the_savepoint_of_another_one"
)
_RESCALE = (
    "tests/integration/runtime/test_rescale.py::test_a_query_is_rescaled_while_records_come_in"
)
_RELEASE = "tests/e2e/test_release.py::test_a_release_is_whole_and_says_what_it_skips"
_SERVERS = "tests/integration/serve/test_servers.py::test_one_server_is_killed_and_no_look_up_fails"
# Nothing runs whole benchmarks: their arguments alone are tried.
_BENCH = "tests/unit/test_docs.py::test_arguments_of_benchmarks_parse"
_PRECHECK = "tests/unit/cli/test_chaos.py"

ELSEWHERE: dict[str, str] = {
    # The tests' own command.
    "make test": _SUITE,
    # Over files that the reader has, or ksqlDB's own.
    "holdfast test tests/books.json": "tests/sql_cases/test_sql_cases.py::test_cases_of_file",
    "holdfast test ksql/ksqldb-functional-tests/src/test/resources/rest-query-validation-tests"
    " -k pull-queries": "tests/sql_cases/test_sql_cases.py::test_cases_of_file",
    # Minutes.
    "make demo": _DEMO,
    "make chaos": _CHAOS,
    "make chaos ROUNDS=40 SEED=7": _CHAOS,
    "make chaos DURATION=10m": _CHAOS,
    "make chaos CHAOS_SERVERS=0": _CHAOS,
    "make chaos CHAOS_SQL=jobs/examples/chaos_joins.sql": _CHAOS,
    "make chaos MUTANT=commit-skipped": _MUTANTS,
    "make chaos-mutants": _MUTANTS,
    "holdfast chaos run orders": _CHAOS,
    "holdfast chaos precheck orders --dry-run": f"{_PRECHECK}"
    "::test_the_same_seed_gives_the_same_schedule_and_a_dry_run_writes_nothing",
    "holdfast test cases -k large -x": "tests/integration/testing/test_runner.py"
    "::test_cases_are_chosen_by_name",
    "holdfast test tests/sql_cases": "tests/sql_cases/test_sql_cases.py::test_cases_of_file",
    "peers=http://127.0.0.1:8088,http://127.0.0.1:8089,http://127.0.0.1:8090": _SERVERS,
    "holdfast serve jobs/examples/movies.sql --servers 3 --server-id 0 --copies 2 --peers $peers "
    "--listen 127.0.0.1:8088": _SERVERS,
    "holdfast compaction apply --hash 3f0c…": _APPLY,
    "holdfast compaction verify": _APPLY,
    "holdfast rollback movies": "tests/integration/deploy/test_local.py"
    "::test_a_deployment_lives_through_kills_changes_and_mistakes",
    "holdfast deploy movies jobs/examples/movies.sql "
    "--set snapshot.uri=/mnt/savepoints": _SAVEPOINT,
    "holdfast deploy movies-v2 movies-v2.sql --from-savepoint movies/before-upgrade "
    "--set snapshot.uri=/mnt/savepoints": _SAVEPOINT,
    "holdfast savepoint create movies before-upgrade": _SAVEPOINT,
    "holdfast savepoint list movies": _SAVEPOINT,
    "holdfast rescale ctas_movie_tickets_sold --state-partitions 16": _RESCALE,
    "holdfast rescale ctas_movie_tickets_sold --confirm": _RESCALE,
    "holdfast savepoint show movies before-upgrade": _SAVEPOINT,
    "holdfast savepoint export movies before-upgrade --to exported": _SAVEPOINT,
    "holdfast savepoint delete movies before-upgrade": _SAVEPOINT,
    "holdfast selftest": "tests/integration/cli/test_selftest.py"
    "::test_makes_a_table_compares_it_and_leaves_nothing",
    "make bench": _BENCH,
    "make bench BENCH_ARGS=--quick": _BENCH,
    "make bench BENCH_ARGS='--workload a,c --peer holdfast,kafka-streams --rounds 5 "
    "--records 1000000'": _BENCH,
    "make bench-serving": _BENCH,
    "make bench-serving BENCH_ARGS='--only following'": _BENCH,
    "make profile": _BENCH,
    "make profile PROFILE_ARGS='--workload b'": _BENCH,
    # Airflow, in its own environment.
    "make release": _RELEASE,
    "make release BASE_IMAGE=debian:bookworm-slim@sha256:1b92…": _RELEASE,
    "make setup-airflow": _DAGS,
    "holdfast kafka start && holdfast produce movies": _DAGS,
    ".ci/airflow dags test deploy_state_table --conf '{\n"
    '  "target": "local", "name": "movies", "sql_file": "jobs/examples/movies.sql", '
    '"executors": 1}\'': _DAGS,
    '.ci/airflow dags test undeploy_state_table --conf \'{"target": "local", "name": "movies"}\'': (
        _DAGS
    ),
    # A cluster (make test-cluster).
    "make cluster": f"{_CLUSTER}::test_the_dag_deploys_a_table_that_counts",
    "make deploy": f"{_CLUSTER}::test_the_dag_deploys_a_table_that_counts",
    "make deploy SCHEMA_REGISTRY=1": "tests/e2e/cluster/test_schema_registry.py"
    "::test_a_table_in_avro_is_deployed_with_its_address",
    "make test-cluster": f"{_CLUSTER}::test_exact_after",
    "make clean": f"{_CLUSTER}::test_undeploying_leaves_the_volumes_and_nothing_else",
    "make chaos TARGET=kubernetes": "tests/e2e/cluster/test_chaos.py"
    "::test_a_small_chaos_run_is_valid",
    "helm install movies helm/holdfast --namespace holdfast "
    "--set-file sql=jobs/examples/movies.sql "
    "--set image.repository=registry.example.org/holdfast --set kafka.bootstrapServers=kafka:9092 "
    "--wait": "tests/helm/test_docs.py::test_the_chart_takes_the_values_that_the_pages_show",
    "helm test movies --namespace holdfast": f"{_CLUSTER}::test_helm_test_passes",
    "kubectl exec movies-driver-0 -- holdfast pause ctas_movie_tickets_sold "
    "--config /etc/holdfast/job/properties.yaml": "tests/helm/test_docs.py"
    "::test_orders_in_a_pod_find_their_properties",
}
"""Command -> the test that runs it, or that runs the same with less to do."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: its language, the file it is shown as, and its text."""

    page: Path
    language: str
    file: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command of a page, its lines joined and its comment left out."""

    page: Path
    text: str


def blocks(*pages: Path) -> Iterator[Block]:
    """The fenced blocks of these pages, of all if none is given."""
    for page in pages or PAGES:
        for language, file, text in _FENCE.findall(page.read_text(encoding="utf-8")):
            yield Block(page, language, file, text.lstrip("\n"))


def commands(*pages: Path) -> Iterator[Command]:
    """The commands of these pages, of all if none is given."""
    for block in blocks(*pages):
        if block.language == "bash":
            yield from (Command(block.page, text) for text in _logical_lines(block.text))


def _logical_lines(text: str) -> Iterator[str]:
    held = ""
    for line in text.splitlines():
        held += line
        if held.endswith("\\"):
            held = held[:-1].rstrip() + " "
            continue
        if _is_open(held):
            held += "\n"
            continue
        told = _without_comment(held)
        held = ""
        if told:
            yield re.sub(r" {2,}(?=--)", " ", told)
    assert not held, f"an open quote or line: {held}"


def _is_open(text: str) -> bool:
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    return False


def _without_comment(text: str) -> str:
    """The shortest beginning that has all words: comments come after it."""
    words = shlex.split(text, comments=True)
    ends = [m.start() for m in re.finditer(r"(?:^|\s)#", text)] + [len(text)]
    return next(text[:end].strip() for end in ends if _words(text[:end]) == words)


def _words(text: str) -> list[str] | None:
    return None if _is_open(text) else shlex.split(text, comments=True)


def simple_commands(text: str) -> Iterator[list[str]]:
    """The words of each command in a line, also of one that is run inside of a pod."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|&;")
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    for word in (*lexer, ";"):
        if word in {"|", "||", "&", "&&", ";"}:
            if words:
                yield words
            words = []
        elif word == "--" and words[:1] == ["kubectl"]:
            yield words
            words = []
        else:
            words.append(word)


def make_workspace(folder: Path) -> Path:
    """Fills a folder with what commands of the pages read: the repository's, and files shown."""
    for name in _LINKED:
        (folder / name).symlink_to(ROOT / name)
    (folder / ".venv").symlink_to(sys.prefix)
    for block in blocks():
        if block.file:
            path = folder / block.file
            path.parent.mkdir(exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
    return folder
