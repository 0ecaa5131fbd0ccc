"""A policy: every key is documented, and all that is wrong is said at once."""

from __future__ import annotations

from dataclasses import fields

import pytest

from holdfast.compaction.plan.policy import POLICY_KEYS, Policy, parse_policy, policy_rows
from holdfast.errors import InvalidConfig

KIB, MIB = 1 << 10, 1 << 20


def test_every_field_has_a_key_and_every_key_is_explained() -> None:
    assert {key.field for key in POLICY_KEYS.values()} == {f.name for f in fields(Policy)}
    for name, default, takes, meaning in policy_rows():
        assert name in Policy().as_dict()
        assert default
        assert takes
        assert meaning


def test_the_defaults_that_are_printed_are_those_in_force() -> None:
    printed = {name: default for name, default, _, _ in policy_rows()}
    assert parse_policy(printed) == Policy()


def test_keys_may_be_texts_or_values() -> None:
    texts = {"target.restore.s": "1.5", "disk.budget.bytes": "1_000", "allow.roll": "false",
             "topics": "a-*, b-*"}  # fmt: skip
    values = {"target.restore.s": 1.5, "disk.budget.bytes": 1000, "allow.roll": False,
              "topics": ["a-*", "b-*"]}  # fmt: skip
    assert parse_policy(texts) == parse_policy(values)
    assert parse_policy(texts).has_target
    assert not Policy().has_target


def test_what_was_given_stands_in_the_plan_with_its_defaults() -> None:
    found = parse_policy({"min.gain": 0.5, "topics": "a"}).as_dict()
    assert found["min.gain"] == 0.5
    assert found["topics"] == ["a"]
    assert found["target.restore.s"] == 0


def test_all_problems_are_named_at_once() -> None:
    given = {
        "target.restore": 60,
        "min.gain": "a fifth",
        "disk.budget.bytes": "12 GB",
        "topics": "",
        "allow.roll": "perhaps",
        "growth.max": 0.5,
    }
    with pytest.raises(InvalidConfig) as caught:
        parse_policy(given)
    assert caught.value.fact.startswith("6 keys of the policy are wrong:")
    for told in (
        "target.restore: no such key of a policy; did you mean target.restore.s?",
        "min.gain: 'a fifth' is no number; it takes: 0 to 1",
        "disk.budget.bytes: '12 GB' is no whole number",
        "topics: it is empty",
        "allow.roll: 'perhaps' is neither; it takes: true, false",
        "growth.max: 0.5 is out of range",
    ):
        assert told in caught.value.fact


def test_a_key_that_is_like_none_is_answered_with_all() -> None:
    with pytest.raises(InvalidConfig, match=r"there are: target\.restore\.s, disk\.budget"):
        parse_policy({"zzz": 1})


def test_topics_are_patterns() -> None:
    policy = parse_policy({"topics": "movies-*, flights-ctas_?-changelog"})
    assert policy.covers("movies-ctas_t-changelog")
    assert policy.covers("flights-ctas_t-changelog")
    assert not policy.covers("flights-ctas_10-changelog")


@pytest.mark.parametrize(
    ("now", "gain", "worth"),
    [
        (100 * MIB, 20 * MIB, True),  # its share is large
        (100 * MIB, 19 * MIB, False),
        (10_000 * MIB, 64 * MIB, True),  # its share is small, it is not
        (10_000 * MIB, 63 * MIB, False),
        (80 * KIB, 64 * KIB, True),
        (64 * KIB, 63 * KIB, False),  # too little to rewrite anything for
    ],
)
def test_what_a_cleaning_has_to_win(now: int, gain: int, worth: bool) -> None:
    assert Policy().worth(now, gain) is worth
