from __future__ import annotations

from holdfast.serve.console.topics import topics_of
from tests.support.console.world import World


def test_topics_are_those_of_the_statements_with_changelogs_and_dead_letters() -> None:
    topology = World().planned
    found = topics_of(topology, {}, {"ctas_per_city": "told-changelog"}, "shop")
    assert found["shop_orders"].relations == ("ORDERS",)
    assert found["shop_orders"].kinds == ("source",)
    groups = dict(found["shop_orders"].readers)
    assert groups["shop-ctas_per_customer"] == "PER_CUSTOMER"
    assert found["told-changelog"].kinds == ("changelog",)
    assert "shop-ctas_per_city-changelog" not in found
    assert found["shop-ctas_per_customer-changelog"].kinds == ("changelog",)
    assert found["shop-dead-letter"].kinds == ("dead letters",)


def test_each_job_has_its_groups_changelogs_and_dead_letters() -> None:
    topology = World().planned
    jobs = {"ctas_per_customer": "other"}
    found = topics_of(topology, jobs, {}, "shop", letters="all-letters")
    assert ("other-ctas_per_customer", "PER_CUSTOMER") in found["shop_orders"].readers
    assert "other-ctas_per_customer-changelog" in found
    letters = {name for name, topic in found.items() if topic.kinds == ("dead letters",)}
    assert letters == {"all-letters", "other-dead-letter"}
