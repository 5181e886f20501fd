"""What grids of ours have alike: Flower's ``Grid`` asks for it, whoever carries the messages."""

from __future__ import annotations

from typing import Any

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid


class OwnGrid(Grid):
    """A grid whose run is this process."""

    def set_run(self, run: Any) -> None:
        """Nothing to set: the run is this process."""

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)
