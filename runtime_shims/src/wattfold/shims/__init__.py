"""Where the shims that resize programs are, and what a Python program may ask and tell them."""

from wattfold.shims.client import Mask, connect
from wattfold.shims.following import Following, follow

__all__ = ["Following", "Mask", "connect", "follow"]
