"""Inventories of SSH hosts: what is taken, and that whatever is not plainly a name, address or path is refused."""

from __future__ import annotations

import re
import sys

import pytest

from harness.model import BadInput
from nodes.hosts.ssh.hosts import heal
from nodes.hosts.ssh.inventory import Inventory

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHG8N5qLXFv9f6KH4iEY5zZeEhBd6vIirQH2hjfLmazb"
DEFAULTS = '[defaults]\nuser = "chaos"\nkey = "~/.ssh/id_ed25519"\n'
TWO = '[[hosts]]\nname = "alpha"\naddress = "192.0.2.11"\n[[hosts]]\nname = "beta"\naddress = "192.0.2.12"\n'
HOST = {"name": "alpha", "address": "192.0.2.11", "user": "chaos", "key": "/home/chaos/.ssh/id"}
INJECTIONS = ["; reboot", "$(reboot)", "`reboot`", "a\nb", "a b", "-oProxyCommand=x", "", "a'b", 'a"b', "é"]


def read(tmp_path, text):
    path = tmp_path / "machines.toml"
    path.write_text(text)
    return Inventory.read(path)


def host(**others):
    """The text of an inventory with one host."""
    lines = [f"{key} = {_toml(value)}" for key, value in {**HOST, **others}.items()]
    return "\n".join(["[[hosts]]", *lines]) + "\n"


def _toml(value):
    if isinstance(value, bool | int):
        return str(value).lower()
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def refused(tmp_path, text):
    with pytest.raises(BadInput) as refusal:
        read(tmp_path, text)
    message = str(refusal.value)
    assert message.startswith(f"{tmp_path / 'machines.toml'}: ")
    assert "\n" not in message
    return message.removeprefix(f"{tmp_path / 'machines.toml'}: ")


def test_defaults_stand_in_for_what_a_host_does_not_say(tmp_path):
    alpha, beta = read(tmp_path, DEFAULTS + TWO + 'user = "root"\nport = 2222\nsudo = true\n').hosts
    assert (alpha.user, alpha.port, alpha.sudo, alpha.key) == ("chaos", 22, False, "~/.ssh/id_ed25519")
    assert (beta.user, beta.port, beta.sudo, beta.key) == ("root", 2222, True, "~/.ssh/id_ed25519")
    assert (alpha.directory, alpha.python, alpha.dialled) == ("/var/tmp/splitbrain", sys.executable, "192.0.2.11")
    assert not alpha.accept_unknown


def test_a_name_for_an_address_needs_the_address_that_nodes_dial(tmp_path):
    assert "hosts.0: expected node_address, an IPv4 address" in refused(tmp_path, host(address="alpha.example.org"))
    (alpha,) = read(tmp_path, host(address="alpha.example.org", node_address="10.1.2.3")).hosts
    assert alpha.dialled == "10.1.2.3"


@pytest.mark.parametrize("value", [*INJECTIONS, "../up", "/etc/../etc"])
@pytest.mark.parametrize(
    "key", ["name", "address", "user", "key", "known_hosts", "directory", "python", "node_address"]
)
def test_what_could_mean_something_to_a_shell_is_refused_by_file_and_key(tmp_path, key, value):
    assert refused(tmp_path, host(**{key: value})).startswith(f"hosts.0.{key}: ")


@pytest.mark.parametrize("value", [*INJECTIONS, KEY + "; reboot", KEY + "\nssh-rsa AAAA", "ssh-ed25519"])
def test_a_host_key_is_one_kind_and_one_key(tmp_path, value):
    assert refused(tmp_path, host(host_key=value)).startswith("hosts.0.host_key: ")


def test_a_pinned_key_and_any_key_are_not_both_accepted(tmp_path):
    assert read(tmp_path, host(host_key=KEY)).hosts[0].host_key == KEY
    message = refused(tmp_path, host(host_key=KEY, accept_unknown=True))
    assert message == "hosts.0: expected host_key or accept_unknown, not both"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "hosts: Field required"),
        ("hosts = []", "hosts: List should have at least 1 item"),
        ("hosts = 3", "hosts: Input should be a valid list"),
        ("hosts = [3]", "hosts.0: Input should be a valid dictionary"),
        ("defaults = 3\n" + host(), "defaults: Extra inputs are not permitted"),
        (host(port=0), "hosts.0.port: Input should be greater than or equal to 1, came 0"),
        (host(port="22"), "hosts.0.port: Input should be a valid integer, came '22'"),
        (host(sudo="yes"), "hosts.0.sudo: Input should be a valid boolean"),
        (host(password="x"), "hosts.0.password: Extra inputs are not permitted"),
        (DEFAULTS + TWO.replace("beta", "alpha"), "hosts: expected each name once, 'alpha' came more often"),
        (DEFAULTS + TWO.replace("2.12", "2.11"), "hosts: expected each node address once, '192.0.2.11'"),
        ("hosts = [", "expected TOML: "),
    ],
    ids=lambda value: re.sub(r"\W+", "-", value)[:40],
)
def test_a_wrong_inventory_is_refused_in_one_line(tmp_path, text, message):
    assert message in refused(tmp_path, text)


def test_an_inventory_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"none.toml: expected an inventory in TOML: No such file"):
        Inventory.read(tmp_path / "none.toml")


@pytest.mark.parametrize("name", ["", "../up", "a/b", "a b", "$(id)", "a\nb", "-rf"])
def test_a_run_s_name_that_is_no_plain_one_is_refused_before_any_machine_is_dialled(tmp_path, name):
    with pytest.raises(BadInput, match="a run's name: expected letters"):
        heal(read(tmp_path, host()), name)
