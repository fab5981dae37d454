"""Inventories of SSH hosts: what is accepted, and that values other than plain names, addresses and paths are not."""

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


def host(**settings):
    """The text of an inventory with one host."""
    lines = [f"{key} = {_toml(value)}" for key, value in {**HOST, **settings}.items()]
    return "\n".join(["[[hosts]]", *lines]) + "\n"


def _toml(value):
    if isinstance(value, bool | int):
        return str(value).lower()
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def rejection(tmp_path, text):
    """The message for an invalid inventory, without the path."""
    with pytest.raises(BadInput) as error:
        read(tmp_path, text)
    message = str(error.value)
    assert message.startswith(f"{tmp_path / 'machines.toml'}: ")
    assert "\n" not in message
    return message.removeprefix(f"{tmp_path / 'machines.toml'}: ")


def test_defaults_apply_to_values_that_a_host_does_not_set(tmp_path):
    alpha, beta = read(tmp_path, DEFAULTS + TWO + 'user = "root"\nport = 2222\nsudo = true\n').hosts
    assert (alpha.user, alpha.port, alpha.sudo, alpha.key) == ("chaos", 22, False, "~/.ssh/id_ed25519")
    assert (beta.user, beta.port, beta.sudo, beta.key) == ("root", 2222, True, "~/.ssh/id_ed25519")
    assert (alpha.directory, alpha.python, alpha.dial_address) == ("/var/tmp/splitbrain", sys.executable, "192.0.2.11")
    assert not alpha.accept_unknown


def test_a_host_name_as_address_needs_a_node_address(tmp_path):
    assert "hosts.0: expected node_address, an IPv4 address" in rejection(tmp_path, host(address="alpha.example.org"))
    (alpha,) = read(tmp_path, host(address="alpha.example.org", node_address="10.1.2.3")).hosts
    assert alpha.dial_address == "10.1.2.3"


@pytest.mark.parametrize("value", [*INJECTIONS, "../up", "/etc/../etc"])
@pytest.mark.parametrize(
    "key", ["name", "address", "user", "key", "known_hosts", "directory", "python", "node_address"]
)
def test_a_value_that_a_shell_could_interpret_is_rejected_with_file_and_key(tmp_path, key, value):
    assert rejection(tmp_path, host(**{key: value})).startswith(f"hosts.0.{key}: ")


@pytest.mark.parametrize("value", [*INJECTIONS, KEY + "; reboot", KEY + "\nssh-rsa AAAA", "ssh-ed25519"])
def test_a_host_key_is_one_type_and_one_key(tmp_path, value):
    assert rejection(tmp_path, host(host_key=value)).startswith("hosts.0.host_key: ")


def test_host_key_and_accept_unknown_exclude_each_other(tmp_path):
    assert read(tmp_path, host(host_key=KEY)).hosts[0].host_key == KEY
    message = rejection(tmp_path, host(host_key=KEY, accept_unknown=True))
    assert message == "hosts.0: expected host_key or accept_unknown, not both"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "hosts: expected a value, found nothing"),
        ("hosts = []", "hosts: expected at least 1 of them, found []"),
        ("hosts = 3", "hosts: expected a list, found 3"),
        ("hosts = [3]", "hosts.0: expected a table of keys and values, found 3"),
        ("defaults = 3\n" + host(), "defaults: expected one of the keys hosts"),
        (host(port=0), "hosts.0.port: expected 1 or more, found 0"),
        (host(port="22"), "hosts.0.port: expected a whole number, found '22'"),
        (host(sudo="yes"), "hosts.0.sudo: expected true or false, found 'yes'"),
        (host(password="x"), "hosts.0.password: expected one of the keys accept_unknown, address"),
        (DEFAULTS + TWO.replace("beta", "alpha"), "hosts: expected each name once, got 'alpha' more than once"),
        (DEFAULTS + TWO.replace("2.12", "2.11"), "hosts: expected each node address once, got '192.0.2.11'"),
        ("hosts = [", ": expected an inventory in TOML: "),
    ],
    ids=lambda value: re.sub(r"\W+", "-", value)[:40],
)
def test_an_invalid_inventory_is_rejected_in_one_line(tmp_path, text, message):
    assert message in rejection(tmp_path, text)


def test_a_missing_inventory_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"none.toml: expected an inventory in TOML, found no such file"):
        Inventory.read(tmp_path / "none.toml")


@pytest.mark.parametrize("name", ["", "../up", "a/b", "a b", "$(id)", "a\nb", "-rf"])
def test_an_invalid_run_name_is_rejected_before_any_connection(tmp_path, name):
    with pytest.raises(BadInput, match="a run's name: expected letters"):
        heal(read(tmp_path, host()), name)
