"""Interface of Python programs to the shims that resize them, and the path of these shims."""

from wattfold.shims.client import Mask, connect
from wattfold.shims.following import Following, follow

__all__ = ["Following", "Mask", "connect", "follow"]
