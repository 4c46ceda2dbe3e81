"""Address of the coordinator, and its links to agents, as the configuration states them."""

from __future__ import annotations

from wattfold.coordinator.adapters import channels
from wattfold.coordinator.adapters.agents.agents import Agents
from wattfold.coordinator.adapters.agents.calls import AgentSettings, Hooks
from wattfold.coordinator.adapters.agents.link import AgentLink, Contacts
from wattfold.coordinator.adapters.agents.membership import Membership
from wattfold.coordinator.adapters.agents.own_lag import OwnLag
from wattfold.coordinator.adapters.config.settings import Config
from wattfold.coordinator.adapters.service import Service
from wattfold.coordinator.cli.shared.connection.address import default_address


def members(
    config: Config, service: Service, agents: Agents, hooks: Hooks, lag: OwnLag
) -> Membership:
    """Return the members of the cluster, with a link to the agent of each node."""
    token, contacts = agent_token(config), Contacts()
    settings = AgentSettings(
        command_timeout_s=config.command_timeout_s,
        mask_deadline_s=config.mask_deadline_s,
        map_deadline_s=config.map_deadline_s,
        term_grace_s=config.term_grace_s,
        telemetry_interval_s=config.telemetry_interval_s,
    )
    clock = service.clock
    return Membership(
        service,
        agents,
        lambda node_id, address: AgentLink(
            node_id, address, token, hooks, settings, clock, lag, contacts
        ),
    )


def agent_token(config: Config) -> str:
    """Return the token that agents require; empty without a token file."""
    return channels.read_token(config.agent_token_file) if config.agent_token_file else ""


def listen_address(config: Config) -> str:
    """Return the address of the configuration, or the default socket of the account."""
    return config.listen or default_address()
