"""What a client asks before it asks for objects: versions, groups, resources."""

from __future__ import annotations

from collections.abc import Iterable

from netnslab.kube_api.objects import Json, Object, Resource

VERSION: Object = {"major": "1", "minor": "34", "gitVersion": "v1.34.0", "platform": "linux/amd64"}
"""Only of its age is anything said by that: client-go's watches with initial events want 1.34."""
HEALTH = ("/healthz", "/livez", "/readyz")
COLLECTION: tuple[Json, ...] = ("create", "delete", "get", "list", "patch", "update", "watch")
SUBRESOURCE: tuple[Json, ...] = ("get", "patch", "update")


def document(path: str, resources: Iterable[Resource]) -> Object | None:
    """The answer to a path of discovery; None where it is none."""
    resources = tuple(resources)
    if path == "/version":
        return VERSION
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if path == "/apis":
        groups = dict.fromkeys(each.group for each in resources if each.group)
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(each, resources) for each in groups]}
    prefix, _, rest = path.removeprefix("/").partition("/")
    if prefix == "apis" and rest in {each.group for each in resources if each.group}:
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(rest, resources)}
    served = [each for each in resources if each.api_version == rest and prefix == ("apis" if each.group else "api")]
    if not served:
        return None
    lines = [line for each in served for line in _lines(each)]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": rest, "resources": lines}


def _group(name: str, resources: Iterable[Resource]) -> Object:
    versions = dict.fromkeys(each.version for each in resources if each.group == name)
    listed: list[Json] = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _lines(resource: Resource) -> list[Json]:
    common: Object = {
        "singularName": resource.kind.lower(),
        "namespaced": resource.is_namespaced,
        "kind": resource.kind,
    }
    short: Object = {"shortNames": list(resource.short_names)} if resource.short_names else {}
    return [
        {"name": resource.plural, **common, "verbs": list(COLLECTION), **short},
        *(
            {"name": f"{resource.plural}/{each}", **common, "singularName": "", "verbs": list(SUBRESOURCE)}
            for each in resource.subresources
        ),
    ]
