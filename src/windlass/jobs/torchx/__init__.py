"""Apps of TorchX, imported as jobs.

- `app_file`: an AppDef as YAML or JSON; `config_file`: the component of a `.torchxconfig`
- `components`: what the built-in components `dist.ddp`, `utils.sh` and `utils.python` start
- `role`, `macros`, `ddp_command`: a role as fields of a job, and its command
"""
