"""Reasons for refusing a command.

    Refused
      InvalidRequest      never: the request itself is wrong
      WrongState          not now: the node's state forbids it (cores taken)
        Fenced            the node obeys another coordinator
      UnknownJob          no such job here
      NotPermitted        the agent may not do this
      NodeFault           the node is the cause, whatever was requested
        NoSpace           disk or another resource is used up
        Broken            a device or program of the node failed

A message names what was wrong with value, limit and unit. No text of the wire format is here.
"""

from __future__ import annotations


class Refused(Exception):  # noqa: N818 - a refusal is an answer, not a fault
    """A command that has no effect."""


class InvalidRequest(Refused):
    """The request can never be carried out as stated."""


class WrongState(Refused):
    """The request contradicts the current state of the node."""


class Fenced(WrongState):
    """The command is from an earlier epoch or from another coordinator of this epoch."""


class UnknownJob(Refused):
    """The job has no process on this node."""


class NotPermitted(Refused):
    """The agent has no right to do this."""


class NodeFault(Refused):
    """The node is the cause: the same command for another job would be refused as well."""


class NoSpace(NodeFault):
    """Disk space, processes or another resource of the node is used up."""


class Broken(NodeFault):
    """A device or program of the node failed."""
