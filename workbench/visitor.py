"""Who asks for a run, as far as a server can tell."""

from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

import gradio as gr

HOUSEHOLD_BITS = 64
"""What a provider gives to one household of IPv6: more addresses than anybody could count singly."""


@dataclass(frozen=True)
class Visitor:
    """A browser or a program at an address.

    The page is a number that the client makes up: it tells those at one address apart, and who forges it is still at
    the same address. The address cannot be forged: it is the other end of the connection, or what the nearest proxy
    that is believed (`ServerPolicy.proxies`) has written down of that; what the client itself claims stands before and
    is not looked at. What this cannot tell: one person with many addresses from many, and many people behind one
    address (a school, a company) from one.
    """

    page: str = ""
    address: str = ""

    @classmethod
    def of(cls, request: gr.Request | None) -> "Visitor":
        """From what Gradio knows of a request; what it does not know is the same visitor each time."""
        client = getattr(request, "client", None)
        host = getattr(client, "host", None) or ""
        return cls(getattr(request, "session_hash", None) or "", _household(str(host)))


NOBODY = Visitor()


def _household(host: str) -> str:
    """The address, of IPv6 the network that one household has."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Address(int(address) >> HOUSEHOLD_BITS << HOUSEHOLD_BITS))
