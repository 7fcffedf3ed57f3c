"""The table about services: what each row says, that none is dead, and that the API only refines."""

from __future__ import annotations

from itertools import product

import msgspec
import pytest

from meshwatchd.core.diagnosis.service_rules import TABLE, judge
from meshwatchd.model.service_check import (
    Area,
    DnsResult,
    Handshake,
    Health,
    Observations,
    Origin,
    Reach,
    Remembered,
    Segments,
    ServiceCode,
    TlsResult,
)
from tests.support.example_services import (
    BROKEN_WAY,
    CUT,
    EXAMPLES,
    EXPIRED,
    OWN_VIP,
    PASSED_ON,
    POD,
    TO_POD,
    VIP,
    WELL,
    connection,
    lookup,
    seen,
)

ENDPOINT_ANSWERS = connection(address=POD, origin=Origin.ENDPOINT)
NEEDS_API = {
    "vip-not-translated": ServiceCode.POLICY_OR_BACKEND,
    "port-too-late": ServiceCode.ENDPOINT_REFUSED,
}
"""What is judged in these examples without the API."""


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_each_case_has_its_code(name):
    """With a sentence, a proof that names what was seen, and a remedy unless all is well."""
    code, observations = EXAMPLES[name]
    judgement = judge(observations)
    assert code is judgement.code
    assert judgement.meaning
    assert judgement.proof
    assert bool(judgement.remedy) == (judgement.health is not Health.GOOD)


def test_every_row_decides_a_case():
    """In the order of the table, so that no row hides behind another one."""
    deciding = [next(row for row in TABLE if row.matches(observations)) for _, observations in EXAMPLES.values()]
    assert list(TABLE) == deciding
    assert set(ServiceCode) == {row.code for row in TABLE}


def test_the_last_row_always_matches():
    """Whatever was seen."""
    assert ServiceCode.UNDETERMINED is judge(Observations(name="a.b", domain="c")).code


@pytest.mark.parametrize("name", [name for name, (_, each) in EXAMPLES.items() if each.api is not None])
def test_the_api_refines_and_changes_no_code(name):
    """What it says is marked, and nothing of it is left without it, nor the endpoint that it has named."""
    code, observations = EXAMPLES[name]
    connections = tuple(each for each in observations.connections if each.origin is not Origin.ENDPOINT)
    without = judge(msgspec.structs.replace(observations, api=None, connections=connections))
    assert NEEDS_API.get(name, code) is without.code
    assert any(line.startswith("API: ") for line in judge(observations).proof)
    assert not any(line.startswith("API: ") for line in without.proof)


def test_a_datapath_fault_has_the_daemons_words():
    """Layer and node are named; the way comes first among the proofs."""
    _, observations = EXAMPLES["datapath"]
    first = judge(observations).proof[0]
    assert "10.244.3.7 belongs to a3 in onprem: the path b1-a1 is down; overlay-new-flows, layer overlay at b1" in first


@pytest.mark.parametrize(("is_well", "expected"), [(True, Health.DOUBTFUL), (False, Health.BROKEN)])
@pytest.mark.parametrize("ways", [(BROKEN_WAY,), (TO_POD,), ()])
def test_a_service_with_an_address_that_works_is_doubtful(is_well, expected, ways):
    """The others of a headless service are still named."""
    more = (connection(address=VIP),) if is_well else ()
    observations = seen(lookup(DnsResult.ADDRESSES, POD, VIP), connection(Reach.SILENT, POD), *more, ways=ways)
    judgement = judge(observations)
    assert expected is judgement.health
    assert f"{POD} port 8080 does not answer the SYN" in judgement.proof


@pytest.mark.parametrize(
    ("reach", "ways", "expected"),
    [
        (Reach.REFUSED, (), (ServiceCode.ENDPOINT_REFUSED, Health.DOUBTFUL)),
        (Reach.SILENT, (WELL,), (ServiceCode.POLICY_OR_BACKEND, Health.DOUBTFUL)),
        (Reach.SILENT, (BROKEN_WAY,), (ServiceCode.DATAPATH, Health.BROKEN)),
    ],
)
def test_ports_that_are_guessed_prove_less(reach, ways, expected):
    """A service's address passes no other ports than its own; what the mesh's probes say stands all the same."""
    judgement = judge(seen(None, connection(reach, is_guessed=True), ways=ways))
    assert expected == (judgement.code, judgement.health)
    assert "the port of the service is not known: the usual ones were tried" in judgement.proof


def test_a_guessed_port_that_is_silent_is_no_missing_translation():
    """An endpoint's own port is known, the service's is not."""
    _, observations = EXAMPLES["vip-not-translated"]
    guessed = tuple(
        msgspec.structs.replace(each, is_guessed=each.origin is Origin.ANSWER) for each in observations.connections
    )
    judgement = judge(msgspec.structs.replace(observations, connections=guessed))
    assert (ServiceCode.POLICY_OR_BACKEND, Health.DOUBTFUL) == (judgement.code, judgement.health)


@pytest.mark.parametrize(
    "changes",
    [
        {"connections": (connection(Reach.SILENT), connection(address=OWN_VIP), ENDPOINT_ANSWERS)},
        {"ways": (BROKEN_WAY, TO_POD)},
    ],
)
def test_a_translation_is_missing_only_where_nothing_else_explains_the_silence(changes):
    """Another address that answers is translated, and a way that is broken is mended first."""
    _, observations = EXAMPLES["vip-not-translated"]
    assert ServiceCode.VIP_NOT_TRANSLATED is not judge(msgspec.structs.replace(observations, **changes)).code


@pytest.mark.parametrize(
    ("ways", "expected"),
    [
        ((CUT,), (ServiceCode.DATAPATH, Health.BROKEN)),
        ((CUT, CUT), (ServiceCode.DATAPATH, Health.BROKEN)),
        ((WELL, CUT), (ServiceCode.DATAPATH, Health.DOUBTFUL)),
        ((TO_POD, BROKEN_WAY), (ServiceCode.DATAPATH, Health.BROKEN)),
    ],
)
def test_one_location_of_several_proves_nothing_about_an_address_of_no_node(ways, expected):
    """It may be elsewhere; a node that has the address settles it."""
    judgement = judge(seen(None, connection(Reach.SILENT), ways=ways))
    assert expected == (judgement.code, judgement.health)
    assert ("a location that may have it" in judgement.meaning) == (judgement.health is Health.DOUBTFUL)


def test_a_port_that_the_api_names_among_those_tried_is_not_too_late():
    """Then what was seen of it counts."""
    _, observations = EXAMPLES["port-too-late"]
    assert "API: it named port 8080 too late: --port 8080" in judge(observations).proof
    tried = (*observations.connections, connection(is_guessed=True))
    assert ServiceCode.GOOD is judge(msgspec.structs.replace(observations, connections=tried)).code


def test_one_guessed_port_that_answers_is_enough():
    """443 is open, 80 is not."""
    open_port = connection(port=443, is_guessed=True)
    assert ServiceCode.GOOD is judge(seen(None, connection(Reach.SILENT, port=80, is_guessed=True), open_port)).code


@pytest.mark.parametrize(
    ("talk", "expected"),
    [
        (EXPIRED, ServiceCode.IDENTITY),
        (TlsResult(outcome=Handshake.ALERT, alert="certificate_expired"), ServiceCode.IDENTITY),
        (TlsResult(outcome=Handshake.ALERT, alert="access_denied"), ServiceCode.IDENTITY),
        *(
            (TlsResult(outcome=Handshake.ALERT, alert=alert), ServiceCode.SNI_REJECTED)
            for alert in ("unrecognized_name", "protocol_version", "handshake_failure", "internal_error", "")
        ),
        (TlsResult(outcome=Handshake.NOT_TLS), ServiceCode.SNI_REJECTED),
        (TlsResult(outcome=Handshake.SILENT), ServiceCode.POLICY_OR_BACKEND),
        (TlsResult(outcome=Handshake.DONE, doubt="self-signed certificate"), ServiceCode.GOOD),
        (PASSED_ON, ServiceCode.GOOD),
    ],
)
def test_handshakes_are_told_apart(talk, expected):
    """An authority that this host does not know is none of it: a mesh has its own."""
    assert expected is judge(seen(None, connection(tls=talk))).code


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (Remembered(addresses=(VIP,)), ServiceCode.WITHDRAWN),
        (Remembered(addresses=(OWN_VIP,)), ServiceCode.GOOD),
        (Remembered(addresses=(VIP,), is_local=True), ServiceCode.GOOD),
        (None, ServiceCode.GOOD),
    ],
)
def test_a_name_that_has_come_home_was_withdrawn_elsewhere(before, expected):
    """Only where it has led to another cluster, and leads to this one's own service."""
    _, observations = EXAMPLES["withdrawn"]
    judgement = judge(msgspec.structs.replace(observations, remembered=before))
    assert (expected, Health.GOOD) == (judgement.code, judgement.health)


def test_a_name_that_leads_nowhere_is_not_excused_by_coming_home():
    """The connection is looked at first."""
    _, observations = EXAMPLES["withdrawn"]
    refused = msgspec.structs.replace(observations, connections=(connection(Reach.REFUSED, OWN_VIP),))
    assert ServiceCode.ENDPOINT_REFUSED is judge(refused).code
    untried = msgspec.structs.replace(observations, connections=())
    assert ServiceCode.UNDETERMINED is judge(untried).code


def test_discovery_goes_before_the_datapath():
    """Whatever becomes of the last address, a name that is gone is discovery's; what is below is not blamed for it."""
    areas = {name: judge(observations).area for name, (_, observations) in EXAMPLES.items()}
    assert (Area.DISCOVERY, Area.DATAPATH) == (areas["not-exported"], areas["exporter-cut"])
    assert (Area.SERVICE, Area.SERVICE) == (areas["exporter-empty"], areas["policy-or-backend"])


def test_there_is_a_judgement_whatever_is_seen():
    """Each result of DNS with each of a SYN and of full segments; only an established connection can be good."""
    for result, reach, segments in product(DnsResult, Reach, Segments):
        answer = lookup(result, *([VIP] if result is DnsResult.ADDRESSES else []))
        judgement = judge(seen(answer, connection(reach, segments=segments)))
        is_good = (result, reach) == (DnsResult.ADDRESSES, Reach.ESTABLISHED) and segments is not Segments.LOST
        assert is_good == (judgement.code is ServiceCode.GOOD)
