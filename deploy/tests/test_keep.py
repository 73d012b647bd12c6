"""What is started again, when, and when no more: with a clock of our own, and no process."""

import pytest

from deploy.keep import Deaths, GaveUpError, Keeper


class Stack:
    """Processes that live and die as the test says."""

    names = ("web", "worker")

    def __init__(self):
        self.dead = set()
        self.launched = []
        self.killed = []

    def running(self, name):
        return name not in self.dead

    def cause_of_death(self, name):
        return f"{name} ended with 3"

    def kill(self, name):
        self.killed.append(name)

    def launch(self, name):
        self.launched.append(name)
        self.dead.discard(name)


@pytest.fixture
def said():
    return []


@pytest.fixture
def stack():
    return Stack()


@pytest.fixture
def keeper(stack, said):
    return Keeper(stack, said.append)


def test_what_died_is_started_again_after_a_pause(keeper, stack, said):
    stack.dead.add("web")
    for now in (10.0, 10.1, 10.4):
        keeper.look(now)
    assert (stack.launched, said) == ([], ["web ended with 3; starting it again in 0.5 s"])
    keeper.look(10.5)
    keeper.look(10.6)
    assert (stack.launched, len(said)) == (["web"], 1)


def test_what_outlived_a_process_goes_at_once(keeper, stack):
    """After the pause its group's number may be another one's."""
    stack.dead.add("web")
    keeper.look(10.0)
    keeper.look(10.1)
    assert (stack.killed, stack.launched) == (["web"], [])


def test_what_keeps_dying_is_given_up(keeper, stack):
    def die_at_once():
        for tenth in range(600):
            stack.dead.add("web")
            keeper.look(tenth / 10)

    with pytest.raises(GaveUpError, match="web ended with 3: the 5th time within 30 s"):
        die_at_once()
    assert stack.launched == ["web"] * 4


def test_one_that_dies_does_not_count_for_another(keeper, stack):
    for now in range(0, 300, 10):
        stack.dead.add("web" if now % 20 else "worker")
        keeper.look(now)
        keeper.look(now + 9)
    assert set(stack.launched) == {"web", "worker"}


@pytest.mark.parametrize(
    ("times", "given_up", "remark"),
    [
        ([0, 1, 2, 3], False, "four are allowed"),
        ([0, 1, 2, 3, 29], True, "five within the window are not"),
        ([0, 1, 2, 3, 31], False, "the first has left the window"),
        ([0, 60, 120, 180, 240, 300], False, "one a minute goes on for ever"),
    ],
)
def test_when_it_gives_up(times, given_up, remark):
    deaths = Deaths()
    verdicts = [deaths.note(now) for now in times]
    assert any(verdicts) is given_up, remark


def test_pauses_grow():
    deaths = Deaths()
    pauses = []
    for now in (0, 1, 2, 3):
        deaths.note(now)
        pauses.append(deaths.pause)
    assert pauses == [0.5, 1, 2, 4]
