from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.compaction.survey.cleaner import CleanerView, cleaner_state, given_up, views_of
from holdfast.compaction.survey.cleaner_files import LogOnDisk, Segment, read_checkpoint, read_log
from holdfast.compaction.survey.facts import BrokerFacts, CleanerState
from holdfast.transport.cluster.log_dirs import LogDir

TOPIC = "app-ctas_t-changelog"
STARTED = """\
[2026-11-21 11:47:13,998] INFO Starting the log cleaner (org.apache.kafka.LogCleaner)
[2026-11-21 11:47:14,005] INFO [kafka-log-cleaner-thread-0]: Starting (LogCleaner$CleanerThread)
"""
CLEANED = f"""\
[2026-11-21 11:55:09,930] INFO [kafka-log-cleaner-thread-0]:
\tLog cleaner thread 0 cleaned log {TOPIC}-0 (dirty section = [0, 277004])
\t3.9 MB of log processed in 0.4 seconds (9.6 MB/sec).
"""
GAVE_UP = f"""\
[2026-11-21 11:56:05,572] WARN [kafka-log-cleaner-thread-0]: Unexpected exception thrown when \
cleaning log Log(dir=/d/{TOPIC}-0, topic={TOPIC}, partition=0). Marking its partition \
({TOPIC}-0) as uncleanable (org.apache.kafka.LogCleaner$CleanerThread)
org.apache.kafka.storage.internals.log.LogCleaningException: Failed to decompress record stream
\tat org.apache.kafka.storage.internals.log.LogCleaner.cleanFilthiestLog(LogCleaner.java:570)
"""
DIED = """\
[2026-11-21 11:57:00,000] ERROR [kafka-log-cleaner-thread-0]: Error due to (LogCleaner)
java.lang.OutOfMemoryError: Java heap space
\tat org.apache.kafka.storage.internals.log.Cleaner.<init>(Cleaner.java:1)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A broker's log folder."""
    made = tmp_path / "kafka" / "data"
    made.mkdir(parents=True)
    text = "#\nnode.id=3\nversion=1\ncluster.id=theirs\n"
    (made / "meta.properties").write_text(text, encoding="utf-8")
    return made


def _say(folder: Path, *texts: str) -> None:
    (folder.parent / "kafka.log").write_text("".join(texts), encoding="utf-8")


def _checkpoint(folder: Path, text: str) -> None:
    (folder / "cleaner-offset-checkpoint").write_text(text, encoding="utf-8")


def _segments(folder: Path, sizes: dict[int, int]) -> None:
    files = folder / f"{TOPIC}-0"
    files.mkdir()
    for base, size in sizes.items():
        (files / f"{base:020d}.log").write_bytes(b"x" * size)
        (files / f"{base:020d}.index").write_bytes(b"x" * 9)
    (files / f"{0:020d}.log.deleted").write_bytes(b"x" * 5_000)


def test_a_checkpoint_is_read(folder: Path) -> None:
    _checkpoint(folder, f"0\n2\n{TOPIC} 0 277004\n{TOPIC} 1 0\n")
    assert read_checkpoint(folder) == {(TOPIC, 0): 277_004, (TOPIC, 1): 0}


@pytest.mark.parametrize(
    "text", ["", "0\n", "1\n1\nt 0 5\n", "0\n2\nt 0 5\n", "0\n1\nt 0\n", "0\nx\nt 0 5\n"]
)
def test_a_file_that_is_no_whole_checkpoint_says_nothing(folder: Path, text: str) -> None:
    _checkpoint(folder, text)
    assert read_checkpoint(folder) is None
    assert CleanerView(folder).cleaned_to(TOPIC, 0) is None


def test_without_a_checkpoint_nothing_is_known(folder: Path) -> None:
    assert read_checkpoint(folder) is None


def test_segments_are_log_files_in_order_without_those_about_to_go(folder: Path) -> None:
    _segments(folder, {500: 20, 0: 10, 900: 30})
    log = read_log(folder, TOPIC, 0)
    assert log == LogOnDisk((Segment(0, 10), Segment(500, 20), Segment(900, 30)))
    assert (log.bytes, log.active_bytes) == (60, 30)
    assert read_log(folder, TOPIC, 1) is None


@pytest.mark.parametrize(
    ("cleaned_to", "ratio"), [(None, 1.0), (0, 1.0), (500, 20 / 30), (900, 0.0)]
)
def test_the_dirty_ratio_is_of_closed_segments(cleaned_to: int | None, ratio: float) -> None:
    log = LogOnDisk((Segment(0, 10), Segment(500, 20), Segment(900, 7_000)))
    assert log.dirty_ratio(cleaned_to) == pytest.approx(ratio)
    assert LogOnDisk((Segment(0, 7_000),)).dirty_ratio(None) == 0.0


def test_only_the_folder_of_that_broker_of_that_cluster_is_looked_at(folder: Path) -> None:
    def seen(broker: int, cluster_id: str, path: Path = folder) -> bool:
        return bool(views_of([LogDir(broker, str(path), -1, -1, {})], cluster_id))

    assert seen(3, "theirs")
    assert not seen(2, "theirs")
    assert not seen(3, "other")
    assert not seen(3, "theirs", folder.parent)


def test_a_cleaner_that_cleaned_works(folder: Path) -> None:
    _say(folder, STARTED, CLEANED, CLEANED)
    state, evidence = cleaner_state({}, [CleanerView(folder)], [TOPIC])
    assert state is CleanerState.RUNNING
    assert evidence == "it cleaned 2 logs, the last at 2026-11-21 11:55:09"


def test_a_cleaner_that_had_nothing_to_do_works(folder: Path) -> None:
    _say(folder, STARTED)
    state, evidence = cleaner_state({}, [CleanerView(folder)], [TOPIC])
    assert state is CleanerState.RUNNING
    assert "no work yet" in evidence


def test_a_changelog_that_was_given_up_is_bad_news_and_others_are_not(folder: Path) -> None:
    _say(folder, STARTED, CLEANED, GAVE_UP)
    view = CleanerView(folder)
    state, evidence = cleaner_state({}, [view], [TOPIC])
    assert state is CleanerState.DEAD
    assert f"gave up {TOPIC}-0 at 2026-11-21 11:56:05" in evidence
    assert "Failed to decompress record stream" in evidence
    assert view.given_up(TOPIC, 0)
    assert not view.given_up(TOPIC, 1)
    assert given_up([view], [TOPIC, "other-changelog"]) == (TOPIC,)
    broker = BrokerFacts(1, (), state, evidence, given_up=(TOPIC,))
    assert not broker.cleans(TOPIC)
    assert broker.cleans("other-changelog")
    assert cleaner_state({}, [view], ["other-changelog"])[0] is CleanerState.RUNNING


def test_a_thread_that_ended_is_bad_news_for_all(folder: Path) -> None:
    _say(folder, STARTED, CLEANED, DIED)
    state, evidence = cleaner_state({}, [CleanerView(folder)], ["other-changelog"])
    assert state is CleanerState.DEAD
    assert evidence == "a thread ended at 2026-11-21 11:57:00: Java heap space"
    assert given_up([CleanerView(folder)], [TOPIC]) == ()
    assert not BrokerFacts(1, (), state, evidence).cleans("other-changelog")


def test_a_restart_gives_everything_another_chance(folder: Path) -> None:
    _say(folder, STARTED, GAVE_UP, DIED, STARTED)
    assert cleaner_state({}, [CleanerView(folder)], [TOPIC])[0] is CleanerState.RUNNING


@pytest.mark.parametrize(
    "settings", [{"log.cleaner.enable": "false"}, {"log.cleaner.threads": "0"}]
)
def test_a_cleaner_may_be_off(folder: Path, settings: dict[str, str]) -> None:
    _say(folder, STARTED, CLEANED)
    state, evidence = cleaner_state(settings, [CleanerView(folder)], [TOPIC])
    assert state is CleanerState.OFF
    assert evidence == "=".join(*settings.items())


def test_of_a_cleaner_elsewhere_nothing_is_known(folder: Path) -> None:
    assert cleaner_state({}, [], [TOPIC])[0] is CleanerState.UNKNOWN
    state, evidence = cleaner_state({}, [CleanerView(folder)], [TOPIC])
    assert (state, evidence) == (
        CleanerState.UNKNOWN,
        "its checkpoints can be read, its log is not beside them",
    )
