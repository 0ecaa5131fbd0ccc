"""`holdfast sql` without a broker: statements are planned and kept, and shown again."""

from __future__ import annotations

import io
import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from holdfast.cli.main import main
from holdfast.cli.shell.answers import Served
from holdfast.cli.shell.broker import Broker
from holdfast.cli.shell.prompt import Completion, typed
from holdfast.cli.shell.session import Session
from holdfast.errors import InvalidStatement, Unsupported

SOURCE = (
    "CREATE STREAM clicks (id INT KEY, page STRING) WITH (KAFKA_TOPIC='in', VALUE_FORMAT='JSON');"
)
TABLE = "CREATE TABLE per_page AS\n  SELECT page, COUNT(*) AS n FROM clicks GROUP BY page;"


class Shell:
    """A session and what it has shown."""

    def __init__(self, properties: dict[str, object] | None = None) -> None:
        self._file = io.StringIO()
        console = Console(file=self._file, width=200)
        self.session = Session(console, Broker(dict), {}, properties or {})

    def __call__(self, text: str) -> str:
        """Carry out statements; the lines shown, without trailing blanks."""
        self._file.seek(0)
        self._file.truncate()
        self.session.run(text)
        return "\n".join(line.rstrip() for line in self._file.getvalue().splitlines())


@pytest.fixture
def shell() -> Shell:
    return Shell()


def rows(shown: str) -> list[list[str]]:
    """The cells of a table's rows, below its rule."""
    lines = shown.splitlines()
    rule = next(i for i, line in enumerate(lines) if "──" in line)
    return [line.split() for line in lines[rule + 1 :] if line.strip()]


def test_statements_that_plan_are_kept_as_a_file(shell: Shell) -> None:
    assert shell(f"{SOURCE} -- read\n{TABLE}") == (
        "Stream CLICKS is in the script.\nTable PER_PAGE is in the script."
    )
    assert shell.session.script == f"{SOURCE}\n{TABLE}\n"
    assert [q.id for q in shell.session.topology.queries] == ["ctas_per_page"]


def test_a_wrong_statement_is_not_kept_and_points_at_its_own_place(shell: Shell) -> None:
    shell(SOURCE)
    with pytest.raises(InvalidStatement) as caught:
        shell(
            "SET 'emit' = 'batch';\n\n  CREATE STREAM o AS SELECT id, pages FROM clicks;SHOW TYPES;"
        )
    assert (caught.value.line, caught.value.column) == (3, 33)
    assert str(caught.value).startswith("line 3, column 33: ")
    assert shell.session.script == f"{SOURCE}\nSET 'emit' = 'batch';\n"


def test_no_server_is_started_for_a_table_that_does_not_exist(tmp_path: Path) -> None:
    session = Session(Console(file=io.StringIO()), Broker(dict), {}, {}, Served(tmp_path))
    session.run(f"{SOURCE} {TABLE}")
    with pytest.raises(InvalidStatement, match=r"PER_PGE does not exist\.") as refused:
        session.run("SELECT * FROM per_pge;")
    assert refused.value.action == "did you mean PER_PAGE?"
    assert not (tmp_path / "sql").exists()


def test_what_there_is(shell: Shell) -> None:
    shell(f"{SOURCE} {TABLE} CREATE TYPE place AS STRUCT<x INT>; DEFINE v = 'it''s';")
    assert rows(shell("SHOW STREAMS;")) == [["CLICKS", "in", "KAFKA", "JSON", "no"]]
    assert rows(shell("LIST TABLES;")) == [["PER_PAGE", "PER_PAGE", "KAFKA", "JSON", "no"]]
    assert rows(shell("SHOW QUERIES;")) == [
        ["ctas_per_page", "PER_PAGE", "PER_PAGE", "CLICKS", "kept", "in", "a", "store"]
    ]
    assert rows(shell("SHOW TYPES;")) == [["PLACE", "STRUCT<X", "INTEGER>"]]
    assert rows(shell("SHOW VARIABLES;")) == [["v", "it's"]]
    functions = rows(shell("SHOW FUNCTIONS;"))
    assert ["UCASE", "scalar", "A", "text", "in", "upper", "case."] in functions
    assert {"aggregate", "scalar", "table"} == {row[1] for row in functions}
    described = rows(shell("DESCRIBE FUNCTION reduce;"))
    assert described[0][:3] == ["scalar", "REDUCE(ARRAY<T>,", "S,"]


def test_properties_say_where_they_come_from() -> None:
    shell = Shell({"state.partitions": 4, "emit": "batch"})
    shell("SET 'emit' = 'record';")
    found = {row[0]: row[1:] for row in rows(shell("SHOW PROPERTIES;"))}
    assert found["state.partitions"] == ["4", "configuration"]
    assert found["emit"] == ["record", "SET"]
    assert found["state.backend"][-1] == "default"


def test_describe(shell: Shell) -> None:
    shell(f"{SOURCE} {TABLE}")
    assert rows(shell("DESCRIBE per_page;")) == [
        ["PAGE", "STRING", "(primary", "key)"],
        ["N", "BIGINT"],
    ]
    shown = shell("DESCRIBE clicks EXTENDED;")
    assert "STREAM CLICKS" in shown
    facts = {line.split("  ")[0].strip(): line.split()[-1] for line in shown.splitlines() if line}
    assert facts["topic"] == "in"
    assert facts["read by"] == "ctas_per_page"
    assert "UCASE(STRING)" in shell("DESCRIBE FUNCTION ucase;")
    assert "STREAM CLICKS" in shell("DESCRIBE STREAMS;")
    for wrong in ("DESCRIBE clock;", "DESCRIBE FUNCTION ucases;", "EXPLAIN ctas_per;"):
        with pytest.raises(InvalidStatement, match=r"did you mean (CLICKS|UCASE|ctas_per_page)\?"):
            shell(wrong)


def test_explain_keeps_nothing(shell: Shell) -> None:
    shell(SOURCE)
    assert "Query csas_o" in shell("EXPLAIN CREATE STREAM o AS SELECT id, page FROM clicks;")
    assert shell.session.topology.queries == ()
    shell(TABLE)
    assert "Query ctas_per_page" in shell("EXPLAIN ctas_per_page;")
    with pytest.raises(InvalidStatement) as caught:
        shell("\n EXPLAIN CREATE STREAM o AS SELECT id, pages FROM clicks;")
    assert (caught.value.line, caught.value.column) == (2, 40)


def test_variables_and_types_last_from_statement_to_statement(shell: Shell) -> None:
    shell("DEFINE name = 'clicks';")
    shell(SOURCE.replace("clicks", "${name}"))
    shell("CREATE TYPE place AS STRUCT<x INT>;")
    shell("CREATE STREAM p (p place) WITH (KAFKA_TOPIC='${name}', VALUE_FORMAT='JSON');")
    assert [s.topic for s in shell.session.topology.sources] == ["in", "clicks"]
    shell("SET 'ksql.variable.substitution.enable' = 'false';")
    shell("CREATE STREAM q (q INT) WITH (KAFKA_TOPIC='topic', VALUE_FORMAT='JSON');")
    with pytest.raises(InvalidStatement):
        shell("DESCRIBE ${name};")


def test_scripts_run_in_the_session(shell: Shell, tmp_path: Path) -> None:
    inner, outer = tmp_path / "inner.sql", tmp_path / "outer.sql"
    inner.write_text(f"DEFINE page = 'page';\n{SOURCE}\n")
    outer.write_text(f"RUN SCRIPT '{inner}';\nCREATE STREAM o AS SELECT id, ${{page}} FROM clicks;")
    shell(f"RUN SCRIPT '{outer}';")
    assert [q.id for q in shell.session.topology.queries] == ["csas_o"]
    with pytest.raises(InvalidStatement, match="cannot be read"):
        shell(f"RUN SCRIPT '{tmp_path / 'none.sql'}';")
    outer.write_text(f"RUN SCRIPT '{outer}';")
    with pytest.raises(InvalidStatement, match="run each other 20 deep"):
        shell(f"RUN SCRIPT '{outer}';")


@pytest.mark.parametrize("verb", ["PAUSE", "RESUME"])
def test_an_order_needs_a_job(shell: Shell, verb: str) -> None:
    with pytest.raises(InvalidStatement, match=f"{verb} reaches no running job: .*no broker"):
        shell(f"{verb} ALL;")


def test_terminate_takes_a_query_out_of_the_script(shell: Shell) -> None:
    shell(f"{SOURCE} {TABLE}")
    with pytest.raises(InvalidStatement, match="did you mean ctas_per_page"):
        shell("TERMINATE ctas_per_pag;")
    assert shell("TERMINATE ctas_per_page;") == "The script has it no longer."
    assert shell.session.topology.queries == ()
    assert shell.session.script.endswith("TERMINATE ctas_per_page;\n")


def test_streams_are_asserted(shell: Shell) -> None:
    shell(SOURCE)
    assert shell("ASSERT STREAM clicks (id INT KEY, page STRING);") == (
        "Stream CLICKS is as asserted."
    )
    with pytest.raises(InvalidStatement):
        shell("ASSERT STREAM clicks (id INT KEY, page INT);")
    assert shell.session.script == f"{SOURCE}\n"


def test_records_are_asserted_by_the_test_runner(shell: Shell) -> None:
    with pytest.raises(Unsupported, match="does not assert records"):
        shell("ASSERT VALUES s (a) VALUES (1);")


def test_completion_knows_words_names_and_columns(shell: Shell) -> None:
    complete = Completion(shell.session)
    assert "clicks" not in complete.of("cli")
    shell(f"{SOURCE} {TABLE}")
    assert complete.of("cli") == ["CLICKS"]
    assert complete.of("PAG") == ["PAGE"]
    assert complete.of("sel") == ["select"]
    assert complete.of("DESC") == ["DESCRIBE"]
    assert complete.of("state.part") == ["state.partitions"]
    assert [complete("ctas", 0), complete("ctas", 1)] == ["ctas_per_page", None]


def test_lines_become_statements() -> None:
    lines = iter(["", "SELECT 'a;", "b'", "; ", "help", "exit", "a -- ;", ";"])
    prompts: list[str] = []

    def line(prompt: str) -> str:
        prompts.append(prompt)
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    assert list(typed(line)) == ["SELECT 'a;\nb'\n; ", "help", "exit", "a -- ;\n;"]
    assert prompts == [
        "sql> ",
        "sql> ",
        "...> ",
        "...> ",
        "sql> ",
        "sql> ",
        "sql> ",
        "...> ",
        "sql> ",
    ]


def test_ctrl_c_throws_away_what_is_not_ended(capsys: pytest.CaptureFixture[str]) -> None:
    answers: list[str | type[BaseException]] = ["CREATE", KeyboardInterrupt, "x;", EOFError]

    def line(_: str) -> str:
        answer = answers.pop(0)
        if isinstance(answer, str):
            return answer
        raise answer

    assert list(typed(line)) == ["x;"]


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "s.sql"
    file.write_text(SOURCE)
    home = ["--home", str(tmp_path)]
    assert main(["sql", str(file), "-e", "SHOW STREAMS;", *home]) == 0
    assert "CLICKS" in capsys.readouterr().out
    assert main(["sql", "-e", "SHOW STREEMS;", *home]) == 2
    assert "did you mean STREAMS?" in capsys.readouterr().err
    assert main(["sql", str(tmp_path / "none.sql"), "-e", "SHOW TYPES;", *home]) == 2
    assert "cannot be read" in capsys.readouterr().err


def read_until(terminal: int, wanted: str) -> str:
    """A terminal's output up to `wanted`."""
    seen = ""
    while wanted not in seen:
        assert select.select([terminal], [], [], 60)[0], f"no {wanted!r} after {seen!r}"
        seen += os.read(terminal, 4096).decode()
    return seen


def test_a_terminal_has_prompts_completion_commands_and_history(tmp_path: Path) -> None:
    terminal, end = pty.openpty()
    saved = tmp_path / "saved.sql"
    program = "import sys; from holdfast.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "sql", "--home", str(tmp_path)]
    with subprocess.Popen(
        command, stdin=end, stdout=end, stderr=end, env={**os.environ, "TERM": "dumb"}
    ) as shell:
        os.close(end)

        def type_in(text: str, answer: str) -> str:
            os.write(terminal, text.encode())
            return read_until(terminal, answer)

        read_until(terminal, "sql> ")
        type_in("CREATE STREAM clicks (id INT KEY, page STRING)\n", "...> ")
        type_in(
            "WITH (KAFKA_TOPIC='in', VALUE_FORMAT='JSON');\n", "Stream CLICKS is in the script."
        )
        type_in("DESCRIBE CLI\t;\n", "STRING")
        type_in("DESCRIBE nothing;\n", "NOTHING")
        type_in(f"save {saved}\n", "The script is in")
        os.write(terminal, b"exit\n")
        assert shell.wait(timeout=60) == 0
    os.close(terminal)
    assert saved.read_text().startswith("CREATE STREAM clicks")
    assert "DESCRIBE nothing;" in (tmp_path / "sql_history").read_text()
