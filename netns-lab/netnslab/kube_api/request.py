"""From a method and a URL to what is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from netnslab.kube_api.objects import ApiError, Json, Object, Resource, name_of, namespace_of, part

VERBS: Mapping[str, tuple[str, str]] = {
    "GET": ("list", "get"),
    "POST": ("create", ""),
    "PUT": ("", "update"),
    "PATCH": ("", "patch"),
    "DELETE": ("", "delete"),
}
"""By method: the verb for a collection and the one for an object; empty where there is none."""

FIELDS = ("metadata.name", "metadata.namespace", "spec.nodeName")
"""What a `fieldSelector` may name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a client wants, in the words of RBAC.

    Attributes:
        verb: get, list, watch, create, update, patch or delete.
        name: empty for a collection.
        query: the URL's, one value for each name.
        body: decoded; None where there is none.
        media_type: of the body.
        user_agent: as the client calls itself.
    """

    verb: str
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    body: Json = None
    media_type: str = ""
    user_agent: str = ""

    def is_set(self, parameter: str) -> bool:
        """A boolean of the query."""
        return self.query.get(parameter, "") in ("1", "true", "True")

    @property
    def is_dry(self) -> bool:
        """Whether a change is only asked for.

        Raises:
            ApiError: it is neither an update nor a patch, which nobody asks for here.
        """
        if "dryRun" not in self.query:
            return False
        if self.verb not in ("update", "patch"):
            raise ApiError(400, f"dryRun of {self.verb} is not played")
        return True

    def number(self, parameter: str, default: int) -> int:
        """A number of the query.

        Raises:
            ApiError: it is none.
        """
        value = self.query.get(parameter, "")
        if value and not value.isdigit():
            raise ApiError(400, f"{parameter}={value} is no number")
        return int(value) if value else default

    def matches(self) -> Callable[[Object], bool]:
        """What a collection is limited to: its namespace, `labelSelector` and `fieldSelector`."""
        labels = list(map(_term, _terms(self.query.get("labelSelector", ""))))
        fields = list(map(_term, _terms(self.query.get("fieldSelector", ""))))
        if strange := [name for name, _, _ in fields if name not in FIELDS]:
            raise ApiError(400, f"field label not supported: {strange[0]}")

        def is_wanted(item: Object) -> bool:
            places = dict(
                zip(FIELDS, (name_of(item), namespace_of(item), part(item, "spec").get("nodeName")), strict=True)
            )
            return (
                self.namespace in ("", namespace_of(item))
                and all(_agrees(part(part(item, "metadata"), "labels"), *term) for term in labels)
                and all(_agrees(places, *term) for term in fields)
            )

        return is_wanted


def path_of(target: str) -> str:
    """The path of a request's target, without a slash at its end."""
    return urlsplit(target).path.rstrip("/") or "/"


def decode(
    method: str,
    target: str,
    resources: Iterable[Resource],
    *,
    body: Json = None,
    media_type: str = "",
    user_agent: str = "",
) -> Request:
    """Read /api/VERSION/... or /apis/GROUP/VERSION/..., with or without /namespaces/NAME.

    Raises:
        ApiError: there is no such resource, or no such verb for it.
    """
    url = urlsplit(target)
    query = dict(parse_qsl(url.query, keep_blank_values=True))
    steps = [unquote(step) for step in path_of(target).split("/")[1:]]
    group, *rest = steps[1:] if steps[0] == "apis" and len(steps) > 1 else ["", *steps[1:]]
    version, *rest = rest or [""]
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        namespace, *rest = rest[1:]
    plural, name, subresource, *beyond = [*rest, "", "", ""][: max(3, len(rest))]
    resource = next(
        (each for each in resources if (each.group, each.version, each.plural) == (group, version, plural)), None
    )
    if steps[0] not in ("api", "apis") or resource is None or beyond or subresource not in ("", *resource.subresources):
        raise ApiError(404, "the server could not find the requested resource")
    verb = VERBS.get(method, ("", ""))[bool(name)]
    if not verb or (namespace and not resource.is_namespaced):
        raise ApiError(405, f"{method} is not supported on {url.path}")
    request = Request(
        verb=verb,
        resource=resource,
        namespace=namespace,
        name=name,
        subresource=subresource,
        query=query,
        body=body,
        media_type=media_type.partition(";")[0].strip(),
        user_agent=user_agent,
    )
    if verb == "list" and request.is_set("watch"):
        return Request(verb="watch", resource=resource, namespace=namespace, query=query, user_agent=user_agent)
    return request


def _terms(selector: str) -> list[str]:
    return [term.strip() for term in selector.split(",") if term.strip()]


def _term(text: str) -> tuple[str, str, str]:
    """Name, operator, value: `a=b`, `a==b`, `a!=b`, `a`, `!a`."""
    for operator in ("!=", "==", "="):
        name, found, value = text.partition(operator)
        if found:
            return name.strip(), "!=" if operator == "!=" else "=", value.strip()
    if "(" in text:
        raise ApiError(400, f"selectors with sets are not known here: {text}")
    return (text[1:].strip(), "absent", "") if text.startswith("!") else (text, "present", "")


def _agrees(values: Mapping[str, Json], name: str, operator: str, value: str) -> bool:
    match operator:
        case "=":
            return values.get(name) == value
        case "!=":
            return values.get(name) != value
        case "absent":
            return name not in values
        case _:
            return name in values
