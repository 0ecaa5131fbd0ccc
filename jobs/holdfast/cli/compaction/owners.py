"""Changes topics' settings in the resources that own them; connects only when needed."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.errors import Refused

__all__ = ["Owners"]


class Owners:
    """Changes KafkaTopics; implements `holdfast.compaction.apply.put_back.TopicOwner`.

    If no topic has an owner, neither a cluster nor its client library is needed.
    """

    def alter(self, owner: str, changes: Mapping[str, str | None]) -> None:
        """See `holdfast.deploy.kubernetes.strimzi.KafkaTopics.alter`.

        Raises:
            Refused: the resource cannot be changed from here.
            Retriable: the API does not answer.
        """
        try:
            from holdfast.deploy.kubernetes.client import KubeClient
            from holdfast.deploy.kubernetes.strimzi import KafkaTopics
        except ImportError as error:
            raise Refused(
                f"The settings are kept by {owner}, and {error.name} is not installed.",
                action="pip install 'holdfast[kubernetes]', or change that resource by hand",
            ) from error
        KafkaTopics(KubeClient()).alter(owner, changes)
