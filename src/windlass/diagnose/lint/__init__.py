"""Checks manifests, batch scripts and Windlass's own files for faults before anything starts.

- `findings`: one fault, its place and its replacement; `rule`: the table of rules
- `values`, `documents`, `pod_templates`, `batch_script`: files as rules see them
- `rules`: the rules, a module for each family
- `engine`: runs the rules; `suppression`: comments that ignore rules; `reports`: output formats; `replacement`: --fix
- `reference_page`: the list of rules
"""
