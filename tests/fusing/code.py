"""Code that is compiled for one test."""


class Nothing:
    """A shelf that keeps nothing."""

    def read(self, name):
        return None

    def write(self, name, data):
        pass


def unkept(monkeypatch, shelf=None):
    """Compile anew, and keep nothing: planted defects must not reach other tests."""
    monkeypatch.setattr("asyncsim.fusing.program._compiled", {})
    monkeypatch.setattr("asyncsim.fusing.program._shelf", lambda: shelf or Nothing())
