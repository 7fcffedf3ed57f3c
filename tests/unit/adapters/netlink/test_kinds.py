import asyncio

from meshwatchd.adapters.netlink import tables
from meshwatchd.adapters.netlink.dumper import Dumper
from meshwatchd.adapters.netlink.kinds import RULES_V4, RULES_V6, describe_kinds
from meshwatchd.adapters.netlink.message import RTM_GETRULE
from meshwatchd.adapters.netlink.tables import Table


def test_every_request_is_one_the_kernel_takes():
    """With strict checking it refuses a header of the wrong size or with a stray bit; devices are always there."""
    names = ("links", "addresses", "routes", "neighbours", "fdb")
    kinds = describe_kinds(**{name: Table(tables.apply_to_devices) for name in names})

    async def scenario():
        dumper = Dumper()
        found = {}
        for kind in kinds:
            found[kind.name] = [
                packed
                for request, header in kind.requests
                for packed in await dumper.dump(request, header, kind.name, kind.pack)
            ]
        found["rules"] = [
            each
            for header in (RULES_V4, RULES_V6)
            for each in await dumper.dump(RTM_GETRULE, header, "rules", lambda body: (body, ()))
        ]
        dumper.close()
        return found

    found = asyncio.run(scenario())

    assert ["devices", "addresses", "routes", "neighbours", "FDB entries", "rules"] == list(found)
    assert found["devices"]
    assert len(found["rules"]) >= 3
