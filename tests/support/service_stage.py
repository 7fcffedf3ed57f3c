"""Stand-ins for what a service of several clusters consists of, on loopback: DNS, listeners, a gateway.

with dns_server({"shop.default.svc.clusterset.local": "NXDOMAIN"}) as server: ...
with tcp_server() as port: ...
with gateway(certificate, sni="outbound_.80_._.shop.default.svc.cluster.local", alpn="istio") as port: ...
with full_listener() as port: ...                  # its kernel drops each further SYN
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rrset

HOST = "127.0.0.1"
CONTROL = "kubernetes.default.svc.cluster.local"
_ABORT = struct.pack("ii", 1, 0)
SILENCE = ""
"""In the place of an answer."""


@contextmanager
def dns_server(
    zones: Mapping[str, str],
    is_heard: Callable[[object], bool] = lambda _asker: True,
    within: Callable[[Callable[[], socket.socket]], socket.socket] = lambda make: make(),
) -> Iterator[tuple[str, int]]:
    """A server over UDP; for each name (or a parent of it) an answer.

    That is addresses with spaces between them, SILENCE, EMPTY, or a response code; behind a slash the zone that denies
    the name. A name that is missing is REFUSED. Questions of askers that are not heard get no answer.
    The socket is made `within` a namespace of the lab where that is given.
    """
    with within(_datagram_socket) as serving:
        with _thread(lambda: _answer_all(serving, zones, is_heard), serving):
            yield serving.getsockname()


def _datagram_socket() -> socket.socket:
    serving = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    serving.bind((HOST, 0))
    return serving


def _answer_all(serving: socket.socket, zones: Mapping[str, str], is_heard: Callable[[object], bool]) -> None:
    while True:
        try:
            data, asker = serving.recvfrom(4096)
        except OSError:
            return
        if not data:
            return
        answer = _answer(dns.message.from_wire(data), zones)
        if answer is not None and is_heard(asker):
            with suppress(BrokenPipeError):  # the test is over meanwhile
                serving.sendto(answer.to_wire(), asker)


def _answer(question: dns.message.Message, zones: Mapping[str, str]) -> dns.message.Message | None:
    asked = question.question[0]
    name = asked.name.to_text(omit_final_dot=True)
    wanted = next((zones[part] for part in _parents(name) if part in zones), "REFUSED")
    if wanted == SILENCE:
        return None
    answer = dns.message.make_response(question)
    words, _, zone = wanted.partition("/")
    if words[0].isdigit() or ":" in words:
        kinds = {1: ".", 28: ":"}
        fitting = [each for each in words.split() if kinds[asked.rdtype] in each]
        if fitting:
            answer.answer.append(dns.rrset.from_text_list(asked.name, 5, "IN", asked.rdtype, fitting))
    elif words != "EMPTY":
        answer.set_rcode(dns.rcode.from_text(words))
    if zone:
        owner = dns.name.from_text(zone)
        answer.authority.append(dns.rrset.from_text(owner, 5, "IN", "SOA", f"{owner} {owner} 1 2 3 4 5"))
    return answer


def _parents(name: str) -> Iterator[str]:
    labels = name.split(".")
    yield from (".".join(labels[start:]) for start in range(len(labels)))


@contextmanager
def tcp_server(reply: bytes = b"", listening: socket.socket | None = None) -> Iterator[int]:
    """Takes connections and reads what comes; answers the first bytes of each with the reply, then closes it."""

    def serve(opened: socket.socket) -> None:
        while opened.recv(65_536):
            if reply:
                opened.sendall(reply)
                return

    with _listener(serve, listening) as port:
        yield port


@contextmanager
def gateway(
    certificate: Path,
    *,
    sni: str = "",
    alpn: str = "",
    reply: bytes = b"",
    wants_client: bool = False,
    greeting: bytes = b"",
    resets: bool = False,
    listening: socket.socket | None = None,
) -> Iterator[int]:
    """A TLS server that ends connections of another name or protocol without a word, as a passthrough gateway does.

    It wants a client's certificate on demand, which in TLS 1.3 is said by an alert behind the handshake. Behind that it
    speaks first where there is a greeting, or resets the connection.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    if alpn:
        context.set_alpn_protocols([alpn])
    if wants_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificate)

    def serve(opened: socket.socket) -> None:
        hello = opened.recv(4096, socket.MSG_PEEK)
        if sni.encode() not in hello or alpn.encode() not in hello:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
            return
        with context.wrap_socket(opened, server_side=True) as inside:
            inside.sendall(greeting)
            if resets:
                inside.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
                return
            while inside.recv(4096):
                if reply:
                    inside.sendall(reply)
                    return

    with _listener(serve, listening) as port:
        yield port


@contextmanager
def full_listener() -> Iterator[int]:
    """A port whose queue of connections is full, so that each further SYN is dropped: as a network that drops it."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.create_server((HOST, 0), backlog=0))
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]


@contextmanager
def closed_port() -> Iterator[int]:
    """A port that refuses connections, and that nobody else is given meanwhile."""
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        yield taken.getsockname()[1]


@contextmanager
def _listener(serve: Callable[[socket.socket], None], given: socket.socket | None = None) -> Iterator[int]:
    with given or socket.create_server((HOST, 0)) as listening:
        with _thread(lambda: _accept_all(listening, serve), listening):
            yield listening.getsockname()[1]


def _accept_all(listening: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    while True:
        try:
            opened, _ = listening.accept()
        except OSError:
            return
        threading.Thread(target=_serve_one, args=(opened, serve), daemon=True).start()


def _serve_one(opened: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    with opened, suppress(OSError):
        opened.settimeout(10)
        serve(opened)


@contextmanager
def _thread(run: Callable[[], None], wakened: socket.socket) -> Iterator[None]:
    """A thread that ends when its socket is shut down."""
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        with suppress(OSError):
            wakened.shutdown(socket.SHUT_RDWR)
        thread.join(10)
