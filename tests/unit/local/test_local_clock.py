from dataclasses import dataclass

from windlass.backends.local.clock import BootOffset, Clock, ClockSources, boot_offset

HOUR = 3_600_000


@dataclass
class Machine:
    boot: str = "a"
    up: int = 5_000
    wall: int = 1_000_000

    def sources(self) -> ClockSources:
        return ClockSources(lambda: self.boot, lambda: self.up, lambda: self.wall)


def test_the_first_reading_is_the_wall_clocks():
    machine = Machine()
    kept = boot_offset(machine.sources(), None, last=0)
    assert Clock(machine.sources(), kept.offset).now() == 1_000_000


def test_a_jump_of_the_wall_clock_within_a_boot_changes_nothing():
    machine = Machine()
    kept = boot_offset(machine.sources(), None, last=0)
    machine.up += 10
    for machine.wall in (0, 1_000_000 + 48 * HOUR):
        assert boot_offset(machine.sources(), kept, last=1_000_000) == kept
        assert Clock(machine.sources(), kept.offset).now() == 1_000_010


def test_a_new_boot_reads_the_wall_clock_again():
    machine = Machine()
    kept = boot_offset(machine.sources(), None, last=0)
    machine.boot, machine.up, machine.wall = "b", 7, 1_000_000 + HOUR
    again = boot_offset(machine.sources(), kept, last=1_000_050)
    assert Clock(machine.sources(), again.offset).now() == 1_000_000 + HOUR


def test_a_new_boot_with_a_wall_clock_in_the_past_continues_from_the_last_record():
    machine = Machine()
    kept = BootOffset("a", 995_000)
    machine.boot, machine.up, machine.wall = "b", 7, 42
    again = boot_offset(machine.sources(), kept, last=1_000_050)
    assert Clock(machine.sources(), again.offset).now() == 1_000_050
