"""Syntax of single values, tables of fields, YAML trees and settings on one line; independent of jobs.

- values: `value_types`, `durations`, `timestamps`, `time_words`, `array_indexes`, `label_terms`, `names`,
  `command_line`
- `field`: a row of a table of fields; `table_reader` reads a YAML tree by a table, `settings_line` one line by a table
- `text`: text of a file, quoted in errors; `yaml_tree`: YAML with the position of every node
"""
