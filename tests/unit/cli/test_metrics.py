"""Series of `windlass metrics` as people see them, and as programs do."""

from windlass.cli.verbs import metrics
from windlass.cli.verbs.metrics import MeasuredObject, MetricsFormat


def series(unit, values):
    """A series of one value every two seconds."""
    times = [1_760_000_000_000 + 2_000 * number for number in range(len(values))]
    return {"series": "memory", "rank": None, "help": "Memory.", "unit": unit, "values": values, "times": times}


def printed(capsys, row, output):
    metrics._print({}, [row], output, paint=False)
    return capsys.readouterr().out


def test_sizes_have_a_binary_suffix_in_the_table_and_none_in_csv(capsys):
    row = series("By", [512.0, 3 * 2.0**30])
    table = printed(capsys, row, MetricsFormat.TABLE).splitlines()[1].split()
    assert table[:10] == ["memory", "bytes", "3", "GiB", "512", "B", "1.5", "GiB", "3", "GiB"]
    assert printed(capsys, row, MetricsFormat.CSV).splitlines()[-1].endswith(",3221225472.0")


def test_a_plot_has_an_axis_of_values_and_one_of_times(capsys):
    lines = printed(capsys, series("s", [float(number) for number in range(60)]), MetricsFormat.PLOT).splitlines()
    assert lines[0] == "memory (Memory, s)"
    assert (lines[1].split("│")[0].strip(), lines[-3].split("│")[0].strip()) == ("59", "0")
    assert lines[-2].strip() == "└" + "─" * 60
    assert len(lines[-1].split()) == 4  # two dates and two times
    short = printed(capsys, series("s", [1.0, 2.0, 3.0]), MetricsFormat.PLOT).splitlines()
    assert len(short[-1].split()) == 4


def test_a_gpu_of_a_node_has_a_series_of_its_own_where_it_is_chosen():
    found = {**series("Cel", [[40.0, 60.0], [50.0, None]]), "level": "gpu", "series": "heat"}
    (mean,) = metrics._rows(found, MeasuredObject(node="n1"))
    assert (metrics._title(mean), mean["values"]) == ("heat", [50.0, 50.0])
    chosen = list(metrics._rows(found, MeasuredObject(node="n1", gpus=[1, 7])))
    assert [(metrics._title(row), row["values"]) for row in chosen] == [('heat{gpu="1"}', [60.0, None])]
