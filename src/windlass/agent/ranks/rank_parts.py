"""Components shared by RankStart, RankStop and RankExitHandler."""

from __future__ import annotations

from typing import NamedTuple

from windlass.agent.ranks.rank_messages import RankMessages
from windlass.agent.ranks.rank_processes import RankProcesses
from windlass.agent.ranks.rank_reports import RankReports
from windlass.agent.ranks.rank_table import RankTable
from windlass.agent.ranks.restart_report import RestartReport
from windlass.agent.ranks.status_file import RankStatusFile


class RankParts(NamedTuple):
    """The one instance of each component on this node; `node_ranks` creates them."""

    table: RankTable
    processes: RankProcesses
    messages: RankMessages
    restarts: RestartReport
    status_file: RankStatusFile
    reports: RankReports
