"""Reasons for refusing a command.

    Refused
      InvalidRequest      never: the request itself is wrong
      WrongState          not now: the node's state forbids it (old epoch, cores taken)
      UnknownJob          no such job here
      NotPermitted        the agent may not do this
      NoSpace             disk or another resource is used up
      Broken              the node failed

A message names what was wrong with value, limit and unit. No text of the wire format is here.
"""

from __future__ import annotations


class Refused(Exception):  # noqa: N818 - a refusal is an answer, not a fault
    """A command that has no effect."""


class InvalidRequest(Refused):
    """The request can never be carried out as it is."""


class WrongState(Refused):
    """The request contradicts the present state of the node."""


class UnknownJob(Refused):
    """The job has no process on this node."""


class NotPermitted(Refused):
    """The agent has no right to do this."""


class NoSpace(Refused):
    """Disk space, processes or another resource of the node is used up."""


class Broken(Refused):
    """A device or program of the node failed."""
