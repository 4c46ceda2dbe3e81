"""Enumerations of jobs in the messages of the coordinator, and their values in the core."""

from __future__ import annotations

from wattfold.coordinator.core.model.jobs.core_sharing import CoreSharing
from wattfold.coordinator.core.model.jobs.mail import MailEvent
from wattfold.coordinator.core.model.jobs.spec import JobKind, ResizeMode
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

KINDS = {
    pb.JOB_KIND_UNSPECIFIED: JobKind.RIGID,
    pb.JOB_KIND_RIGID: JobKind.RIGID,
    pb.JOB_KIND_MOLDABLE: JobKind.MOLDABLE,
    pb.JOB_KIND_MALLEABLE: JobKind.MALLEABLE,
    pb.JOB_KIND_EVOLVING: JobKind.EVOLVING,
}
UNITS = {
    pb.SIZE_UNIT_UNSPECIFIED: SizeUnit.CORES,
    pb.SIZE_UNIT_CORES: SizeUnit.CORES,
    pb.SIZE_UNIT_NODES: SizeUnit.NODES,
    pb.SIZE_UNIT_UNITS: SizeUnit.UNITS,
}
SPREADS = {
    pb.UNIT_SPREAD_UNSPECIFIED: Spread.ANY,
    pb.UNIT_SPREAD_ANY: Spread.ANY,
    pb.UNIT_SPREAD_TOGETHER: Spread.TOGETHER,
    pb.UNIT_SPREAD_APART: Spread.APART,
}
MODES = {
    common_pb2.RESIZE_MODE_UNSPECIFIED: ResizeMode.MASK,
    common_pb2.RESIZE_MODE_FIXED: ResizeMode.FIXED,
    common_pb2.RESIZE_MODE_MASK: ResizeMode.MASK,
    common_pb2.RESIZE_MODE_TEAM: ResizeMode.TEAM,
    common_pb2.RESIZE_MODE_MAP: ResizeMode.MAP,
    common_pb2.RESIZE_MODE_RESTART: ResizeMode.RESTART,
    common_pb2.RESIZE_MODE_REBUILD: ResizeMode.REBUILD,
}
SHARINGS = {
    pb.CORE_SHARING_UNSPECIFIED: CoreSharing.AS_KIND,
    pb.CORE_SHARING_NO: CoreSharing.NO,
    pb.CORE_SHARING_LEND: CoreSharing.LEND,
    pb.CORE_SHARING_BORROW: CoreSharing.BORROW,
    pb.CORE_SHARING_BOTH: CoreSharing.BOTH,
}
MAIL_EVENTS = {
    pb.MAIL_EVENT_BEGIN: MailEvent.BEGIN,
    pb.MAIL_EVENT_END: MailEvent.END,
    pb.MAIL_EVENT_FAIL: MailEvent.FAIL,
    pb.MAIL_EVENT_REQUEUE: MailEvent.REQUEUE,
}
