"""In-place operators: when writing into a tensor is the same as computing a new one."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .values import Unproved

if TYPE_CHECKING:
    from torch.fx import Node


class AliasSets:
    """Which nodes of a graph may share memory: two nodes with the same root may, two others do not.

    Nodes are told in the order of the graph.
    """

    def __init__(self, order: Iterable["Node"]) -> None:
        self._time = {node: time for time, node in enumerate(order)}
        self._root: dict[Node, Node] = {}
        self._members: dict[Node, list[Node]] = {}
        self._fixed: set[Node] = set()
        self._overlapping: set[Node] = set()

    def own(self, node: "Node", fixed: bool = False) -> None:
        """New memory; `fixed` if it is an input, a parameter or a constant, which nobody may write to."""
        self._root[node] = node
        self._members[node] = [node]
        if fixed:
            self._fixed.add(node)

    def share(self, node: "Node", others: Iterable["Node"], overlaps: bool = False) -> None:
        """A node that may be, or may look into, the memory of others; `overlaps` if several of its entries may be one
        place there.
        """
        self.own(node)
        if overlaps:
            self._overlapping.add(node)
        for other in others:
            one, two = self._root[node], self._root[other]
            if one is not two:
                for member in self._members[two]:
                    self._root[member] = one
                self._members[one] += self._members.pop(two)

    def sharers(self, node: "Node") -> list["Node"]:
        """All nodes so far that may share memory with this one."""
        return list(self._members[self._root[node]])

    def write(self, node: "Node", target: "Node", others: Iterable["Node"]) -> None:
        """Unproved unless what `node` writes into `target` is seen through `node` alone.

        Guarantee: no input and no parameter changes, and every tensor that is read later has the entries that it would
        have if `node` had computed a new tensor.
        """
        shared = self._members[self._root[target]]
        if any(member in self._fixed for member in shared):
            raise Unproved("it writes into the input, a parameter or a constant")
        if any(member in self._overlapping for member in shared):
            raise Unproved("it writes into memory in which rows may lie on each other")
        if any(self._root[other] is self._root[target] for other in others):
            raise Unproved("it reads the memory that it writes to")
        now = self._time[node]
        if any(self._time[user] > now for member in shared for user in member.users):
            raise Unproved("it overwrites something that is read later")
        self.share(node, [target])
