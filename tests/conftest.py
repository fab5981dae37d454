"""What holds for every test: programs are found as the command finds them, whoever runs the tests."""

from nodes.hosts.sandbox import widen_path

widen_path()
