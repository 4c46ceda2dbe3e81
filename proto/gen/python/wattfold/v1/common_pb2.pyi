from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class ResizeMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESIZE_MODE_UNSPECIFIED: _ClassVar[ResizeMode]
    RESIZE_MODE_FIXED: _ClassVar[ResizeMode]
    RESIZE_MODE_MASK: _ClassVar[ResizeMode]
    RESIZE_MODE_TEAM: _ClassVar[ResizeMode]
    RESIZE_MODE_MAP: _ClassVar[ResizeMode]
    RESIZE_MODE_RESTART: _ClassVar[ResizeMode]
    RESIZE_MODE_REBUILD: _ClassVar[ResizeMode]
RESIZE_MODE_UNSPECIFIED: ResizeMode
RESIZE_MODE_FIXED: ResizeMode
RESIZE_MODE_MASK: ResizeMode
RESIZE_MODE_TEAM: ResizeMode
RESIZE_MODE_MAP: ResizeMode
RESIZE_MODE_RESTART: ResizeMode
RESIZE_MODE_REBUILD: ResizeMode

class CommandHeader(_message.Message):
    __slots__ = ("epoch", "request_id", "cause", "coordinator_id", "journal_number")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_ID_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_NUMBER_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    request_id: str
    cause: str
    coordinator_id: str
    journal_number: int
    def __init__(self, epoch: _Optional[int] = ..., request_id: _Optional[str] = ..., cause: _Optional[str] = ..., coordinator_id: _Optional[str] = ..., journal_number: _Optional[int] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("regions", "done", "total")
    REGIONS_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    regions: int
    done: float
    total: float
    def __init__(self, regions: _Optional[int] = ..., done: _Optional[float] = ..., total: _Optional[float] = ...) -> None: ...

class ResourceLimit(_message.Message):
    __slots__ = ("name", "soft")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOFT_FIELD_NUMBER: _ClassVar[int]
    name: str
    soft: int
    def __init__(self, name: _Optional[str] = ..., soft: _Optional[int] = ...) -> None: ...
